use super::{Given, load_file};

const SECRET: &str = "hunter2";

#[test]
fn no_password_shows_in_debug_or_display() {
    let given = Given {
        file: Some(
            "password = \"hunter2\"\n[cluster]\nseeds = \"a:1\"\nuser = \"app\"\npassword_file = \"pw\"",
        ),
        files: &[("etc/pw", "hunter2\n")],
        ..Given::default()
    };
    let config = given.load().unwrap();

    assert_eq!(config.listen.password.as_ref().unwrap().expose(), SECRET);
    assert_eq!(config.cluster.password.as_ref().unwrap().expose(), SECRET);
    assert!(!format!("{config} {config:?} {config:#?}").contains(SECRET));
    assert!(format!("{config:?}").contains("Secret(…)"));
    assert_eq!(config.to_string().matches("# password is set (not shown)").count(), 2);
}

#[test]
fn no_password_shows_in_an_error() {
    for file in [
        "password = hunter2",
        "password = \"hunter2",
        "password = 'hunter2\nlisten = 1",
        "password = \"hunter2\" x",
        "password = \"hunter2\"\npassword = \"hunter2\"",
        "password = \"hunter2\\n\"",
        "password = \"\\q hunter2\"",
        "password = [\"hunter2\"]",
        "password = { hunter2 = 1 }",
        "pasword = \"hunter2\"",
        "password = \"hunter2\"\npassword_file = \"x\"",
        "password hunter2",
        "cluster.seeds = \"redis://hunter2@10.0.0.1:6379\"",
        "cluster.seeds = [\"redis://app:hunter2@10.0.0.1\"]",
        "cluster.seeds = \"redis-cluster://hunter2,x@a:1\"",
        "cluster.seeds = \":hunter2@a:1\"",
        "cluster.address_map = { a = \"redis://hunter2@b\" }",
        "listen = \"redis://:hunter2@0.0.0.0:6380\"",
    ] {
        let error = load_file(file).map(|config| config.to_string()).expect_err(file);
        assert!(!format!("{error} {error:?}").contains(SECRET), "{error}");
    }
}

#[test]
fn no_password_of_a_variable_or_a_file_shows_in_an_error() {
    for given in [
        Given { env: &[("TSUBAKI_PASSWORD", "hunter2\n")], ..Given::default() },
        Given { env: &[("TSUBAKI_PASWORD", "hunter2")], ..Given::default() },
        Given { env: &[("TSUBAKI_PASSWORD", "hunter2"), ("TSUBAKI_PASSWORD_FILE", "x")], ..Given::default() },
        Given {
            env: &[("TSUBAKI_PASSWORD_FILE", "x")],
            files: &[("x", "hunter2\nhunter2\n")],
            ..Given::default()
        },
    ] {
        let error = given.load().unwrap_err();
        assert!(!format!("{error} {error:?}").contains(SECRET), "{error}");
    }
}

#[test]
fn only_the_end_of_the_line_is_cut_from_a_password_file() {
    for (content, password) in
        [(" pw ", " pw "), ("pw\n", "pw"), ("pw\r\n", "pw"), ("pw\n\n", "pw"), ("p\tw", "p\tw")]
    {
        let given = Given {
            file: Some("password_file = \"/run/pw\"\ncluster.seeds = \"a:1\""),
            files: &[("/run/pw", content)],
            ..Given::default()
        };
        assert_eq!(given.load().unwrap().listen.password.unwrap().expose(), password);
    }
}

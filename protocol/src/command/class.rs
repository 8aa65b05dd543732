//! What tsubaki does with a command.

/// What tsubaki does with a command. The text of the last three is the reason that the user is told:
/// `-ERR 'x' is not supported yet: <reason>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The proxy answers it.
    Local,
    /// One node answers it, whatever connection it comes on: the node of its keys' slot, any master if the
    /// command came without keys.
    Routed,
    /// Its keys may be of several slots; every slot's node answers its part.
    Split(Split),
    /// It makes sense only if every node gets it.
    AllNodes(&'static str),
    /// It leaves a state on its connection or keeps the connection waiting, so no other client may share it.
    Private(&'static str),
    /// It has no place behind a proxy.
    Refused(&'static str),
}

/// How the parts of a command are cut and their replies merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// MGET: a key each; the values in the order asked.
    Mget,
    /// MSET: a key and a value each; `OK` if all parts say so.
    Mset,
    /// DEL, UNLINK, EXISTS, TOUCH: a key each; the sum of the integers.
    Sum,
}

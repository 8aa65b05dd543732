//! Which nodes a command goes to and how their replies become one, as the tips of `COMMAND` say it
//! (Redis documentation, "Command tips").

/// The tip `request_policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RequestPolicy {
    /// No tip: to the node of the keys' slot, to any node if there are no keys.
    #[default]
    Default,
    /// `all_nodes`: to every node, replicas included.
    AllNodes,
    /// `all_shards`: to every master.
    AllShards,
    /// `multi_shard`: cut by slot.
    MultiShard,
    /// `special`: the command has its own rule.
    Special,
}

/// The tip `response_policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResponsePolicy {
    /// No tip: the elements of all replies, in the order of the keys if there are any.
    #[default]
    Default,
    /// `one_succeeded`: the first reply that is no error.
    OneSucceeded,
    /// `all_succeeded`: any reply if all are alike and none is an error.
    AllSucceeded,
    /// `agg_logical_and`: the logical AND of integers that are 0 or 1.
    AggLogicalAnd,
    /// `agg_logical_or`: the logical OR of integers that are 0 or 1.
    AggLogicalOr,
    /// `agg_min`: the least number.
    AggMin,
    /// `agg_max`: the greatest number.
    AggMax,
    /// `agg_sum`: the sum of the numbers.
    AggSum,
    /// `special`: the command has its own rule.
    Special,
}

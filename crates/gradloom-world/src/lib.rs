//! Connects the processes that train one model together.

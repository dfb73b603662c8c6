//! Empty: cargo wants a target beside the dependencies.

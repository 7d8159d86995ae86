//! Cancellation of runs by another thread or at a deadline.
//!
//! In: a [`CancelToken`] that the caller passes to a program. Out: an error at the next point where a run
//! can end before its commit. Invariant: a cancelled run changes no persistent state.

use gradloom_core::error::Result;
pub use token::CancelToken;

/// Condition that may end a run: the caller's token, if any. In a browser, there are no tokens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stop<'a> {
    token: Option<&'a CancelToken>,
    _token: std::marker::PhantomData<&'a ()>,
}

impl Stop<'_> {
    /// Checks whether the run may continue.
    ///
    /// # Errors
    /// Returns an error if the run must end.
    #[inline]
    pub fn check(self) -> Result<()> {
        if let Some(token) = self.token {
            return token.check();
        }
        Ok(())
    }

    /// Returns `true` if there is a token that could end the run.
    pub fn is_possible(self) -> bool {
        self.token.is_some()
    }
}

/// Holder of the token passed to a program, if any.
#[derive(Debug, Default)]
pub struct Token {
    /// Token, if one was passed.
    pub given: Option<CancelToken>,
}

impl Token {
    /// Returns the condition that may end the program's runs.
    pub fn stop(&self) -> Stop<'_> {
        Stop { token: self.given.as_ref(), ..Stop::default() }
    }
}

mod token {
    use gradloom_core::error::{Error, ErrorKind, Result};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    /// A token that ends the runs of the programs it is passed to (`Train::set_cancel_token`,
    /// `Infer::set_cancel_token`) once [`CancelToken::cancel`] is called, from any thread, or its deadline
    /// has passed. Clones share their state, and one token can be passed to many programs.
    ///
    /// A run ends before its next launch on a CPU and before its next submission on a GPU; a submitted step
    /// completes. The store and the number of attempted steps remain as before the step, so the same step
    /// can be run again with bit-identical results. A commit that has begun is not interrupted.
    ///
    /// ```
    /// # mod gradloom { pub use gradloom_core::*; pub use gradloom_runtime::*; }
    /// # use gradloom_cpu::CpuDevice as _;
    /// use gradloom::{error::ErrorKind, nn::Linear, optim::Sgd, trace::f32};
    /// use gradloom::{CancelToken, Device, Trainer};
    ///
    /// let mut train = Trainer::new(Linear::new(3, 1))
    ///     .inputs([f32("x", [4, 3])])
    ///     .loss(|layer, [x]| layer.forward(x).square().mean())
    ///     .optimizer(Sgd::new(0.1))
    ///     .compile(&Device::cpu())?;
    /// let token = CancelToken::new();
    /// train.set_cancel_token(token.clone());
    /// train.step([&[1.0f32; 12]])?;
    ///
    /// // As another thread would, at any time.
    /// token.cancel();
    /// let error = train.step([&[1.0f32; 12]]).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Cancelled);
    ///
    /// train.set_cancel_token(None);
    /// train.step([&[1.0f32; 12]])?;
    /// assert_eq!(train.attempted_steps(), 2);
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    ///
    #[derive(Clone, Debug, Default)]
    pub struct CancelToken {
        cancelled: Arc<AtomicBool>,
        deadline: Option<Instant>,
    }

    impl CancelToken {
        /// Creates a token without a deadline: only [`CancelToken::cancel`] ends runs.
        ///
        /// ```
        /// let token = gradloom_runtime::CancelToken::new();
        /// assert!(!token.is_cancelled());
        /// ```
        pub fn new() -> Self {
            Self::default()
        }

        /// Creates a token that also ends runs once `deadline` has passed.
        ///
        /// ```
        /// # mod gradloom { pub use gradloom_core::*; pub use gradloom_runtime::*; }
        /// # use gradloom_cpu::CpuDevice as _;
        /// use gradloom::{error::ErrorKind, nn::Linear, trace::f32};
        /// use gradloom::{CancelToken, Device, Session};
        ///
        /// let session = Session::new(Linear::new(3, 2), &Device::cpu(), 7)?;
        /// let mut forward = session.infer([f32("x", [1, 3])], |layer, [x]| layer.forward(x))?;
        /// forward.set_cancel_token(CancelToken::with_deadline(std::time::Instant::now()));
        /// let error = forward.run([&[0.0f32; 3]]).unwrap_err();
        /// assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
        /// # Ok::<(), gradloom_core::error::Error>(())
        /// ```
        pub fn with_deadline(deadline: Instant) -> Self {
            Self { deadline: Some(deadline), ..Self::default() }
        }

        /// Creates a token whose deadline is `timeout` from now, or without a deadline if the clock cannot
        /// represent that time.
        ///
        /// ```
        /// use std::time::Duration;
        /// let token = gradloom_runtime::CancelToken::with_timeout(Duration::from_secs(60));
        /// assert!(!token.is_cancelled());
        /// ```
        pub fn with_timeout(timeout: Duration) -> Self {
            Self { deadline: Instant::now().checked_add(timeout), ..Self::default() }
        }

        /// Ends the current and all later runs of the programs that have the token.
        ///
        /// ```
        /// let token = gradloom_runtime::CancelToken::new();
        /// token.clone().cancel();
        /// assert!(token.is_cancelled());
        /// ```
        pub fn cancel(&self) {
            self.cancelled.store(true, Ordering::Relaxed);
        }

        /// Returns `true` if the token was cancelled or its deadline has passed.
        ///
        /// ```
        /// use std::time::Duration;
        /// assert!(gradloom_runtime::CancelToken::with_timeout(Duration::ZERO).is_cancelled());
        /// ```
        pub fn is_cancelled(&self) -> bool {
            self.cancelled.load(Ordering::Relaxed)
                || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
        }

        /// Checks whether runs may continue.
        ///
        /// # Errors
        /// Returns an error if the token was cancelled or its deadline has passed.
        #[inline]
        pub fn check(&self) -> Result<()> {
            if self.is_cancelled() { Err(self.error()) } else { Ok(()) }
        }

        #[cold]
        fn error(&self) -> Error {
            let (kind, message) = if self.cancelled.load(Ordering::Relaxed) {
                (ErrorKind::Cancelled, "the run was cancelled")
            } else {
                (ErrorKind::DeadlineExceeded, "the deadline of the run has passed")
            };
            Error::new(kind, message)
                .note("nothing of the run took effect")
                .help("give the program another token, or none, to run it again: `.set_cancel_token(None)`")
        }
    }
}

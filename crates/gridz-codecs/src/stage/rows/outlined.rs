//! Functions that are compiled once for each level, and not inlined into their callers.

/// Defines functions of a [`Simd`](crate::stage::rows::Simd) whose bodies are tasks of
/// [`Simd::outlined`](crate::stage::rows::Simd::outlined). Without it, each would need a struct for
/// its arguments. The function's first type parameter is the word.
macro_rules! outlined {
    (@) => { () };
    (@ $output:ty) => { $output };
    ($(
        $(#[$meta:meta])*
        $vis:vis fn $name:ident<$($life:lifetime,)* $word:ident $(, $param:ident: $bound:path)*>(
            $s:ident $(, $arg:ident: $type:ty)* $(,)?
        ) $(-> $output:ty)? $body:block
    )+) => {$(
        $(#[$meta])*
        #[inline(always)]
        $vis fn $name<$($life,)* $word: $crate::stage::word::Word, S: $crate::stage::rows::Simd<$word>
            $(, $param: $bound)*>($s: S $(, $arg: $type)*) $(-> $output)?
        {
            struct Task<$($life,)* $word: $crate::stage::word::Word $(, $param: $bound)*> {
                $($arg: $type,)*
                of: std::marker::PhantomData<($word, $($param,)*)>,
            }
            impl<$($life,)* $word: $crate::stage::word::Word $(, $param: $bound)*>
                $crate::stage::rows::WithSimd<$word> for Task<$($life,)* $word $(, $param)*>
            {
                type Output = $crate::stage::rows::outlined!(@ $($output)?);

                #[inline(always)]
                fn run<S: $crate::stage::rows::Simd<$word>>(self, $s: S) -> Self::Output {
                    let Self { $($arg,)* .. } = self;
                    $body
                }
            }
            $s.outlined(Task::<$word $(, $param)*> { $($arg,)* of: std::marker::PhantomData })
        }
    )+};
}
pub(crate) use outlined;

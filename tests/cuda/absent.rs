//! Without a driver: everything works on the CPU, and a request for the GPU fails with the reason.

#![allow(unsafe_code, reason = "calls the C API")]

use std::ffi::CStr;

use crate::mock_cuda::without_driver;
use gridz::{Array, ByteOrder, Context, DType, Detail, ErrorKind, Request, Shape, Verify};
use gridz_capi::api::{gridz_decompress, gridz_last_error};
use gridz_capi::status::GRIDZ_ERROR_DEVICE;
use gridz_codecs::settings;
use gridz_codecs::settings::Backend;
use gridz_cuda::{Device, Fatbin, gpu_of_pointer, gpus, is_active};

fn round_trip(context: &Context) {
    let array = Array::new(DType::F32, ByteOrder::Little, Shape::new(&[64, 64]).unwrap()).unwrap();
    let values: Vec<u8> = (0..64 * 64).flat_map(|i| (i as f32).sqrt().to_le_bytes()).collect();
    let mut frame = vec![0; gridz::compress_bound(&array, &Request::default()).unwrap() as usize];
    let n = gridz::compress(&array, &Request::default(), &values, &mut frame, context).unwrap();
    let mut back = vec![0; values.len()];
    gridz::decompress(&frame[..n], gridz::Part::All, &mut back, Verify::Checksum, context).unwrap();
    assert_eq!(back, values);
}

#[test]
fn everything_is_on_the_cpu() {
    without_driver("absent::everything_is_on_the_cpu", &[], || {
        for _ in 0..2 {
            let error = gpus().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Device);
            assert!(error.context().contains("no NVIDIA driver is installed"), "{error}");
            assert_eq!(Device::choose(settings::checked().unwrap()).unwrap_err(), error);
            assert_eq!(Device::current().unwrap_err(), error);
            assert!(!is_active());
            assert_eq!(gpu_of_pointer((&raw const error).cast()), None);
        }
        gridz::check_backend().unwrap();
        round_trip(&Context::default());
    });
}

#[test]
fn requiring_the_gpu_reports_why_there_is_none() {
    let name = "absent::requiring_the_gpu_reports_why_there_is_none";
    without_driver(name, &[("GRIDZ_BACKEND", "cuda")], || {
        let error = gridz::check_backend().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Device);
        let text = error.context();
        assert!(text.starts_with("the required GPU cannot be used: no NVIDIA driver is installed"), "{text}");
        assert_eq!(Context::default().on(Backend::Cuda, None).unwrap_err(), error);
        round_trip(&Context::default().on(Backend::Cpu, None).unwrap());

        // The same holds for parts of frames.
        let array = Array::new(DType::F32, ByteOrder::Little, Shape::new(&[64, 64]).unwrap()).unwrap();
        let (request, values) = ("multigrid,abs=1".parse::<Request>().unwrap(), [0; 64 * 64 * 4]);
        let mut frame = vec![0; gridz::compress_bound(&array, &request).unwrap() as usize];
        let by_cpu = Context::default().on(Backend::Cpu, None).unwrap();
        let n_bytes = gridz::compress(&array, &request, &values, &mut frame, &by_cpu).unwrap();
        let (frame, mut dst, context) = (&frame[..n_bytes], [0; 64 * 64 * 4], Context::default());
        let region = gridz::decompress(
            frame,
            gridz::Part::Region { start: &[0, 0], count: &[2, 2] },
            &mut dst,
            Verify::Checksum,
            &context,
        );
        assert_eq!(region.unwrap_err(), error);
        let part =
            gridz::decompress(frame, gridz::Part::Detail(Detail::Level(1)), &mut dst, Verify::Checksum, &context);
        assert_eq!(part.unwrap_err(), error);

        // The C API reports the error; it does not fall back to the CPU.
        let mut n_bytes = 0;
        let (frame, mut array) = ([0u8; 64], [0u8; 16]);
        // SAFETY: frame and destination are as long as they say; there are no options.
        let status = unsafe {
            gridz_decompress(
                frame.as_ptr().cast(),
                frame.len(),
                array.as_mut_ptr().cast(),
                array.len(),
                &raw mut n_bytes,
                std::ptr::null(),
            )
        };
        assert_eq!(status, GRIDZ_ERROR_DEVICE);
        // SAFETY: the string is valid until the next error of this thread.
        let text = unsafe { CStr::from_ptr(gridz_last_error()) };
        assert_eq!(text.to_str().unwrap(), error.context());
    });
}

#[test]
fn requiring_the_cpu_uses_it() {
    without_driver("absent::requiring_the_cpu_uses_it", &[("GRIDZ_BACKEND", "cpu"), ("GRIDZ_DEVICE", "7")], || {
        gridz::check_backend().unwrap();
        round_trip(&Context::default());
    });
}

/// A variable with a bad value is an error in Rust and in C; only decompression may use the default
/// instead.
#[test]
fn a_bad_variable_is_an_error() {
    without_driver("absent::a_bad_variable_is_an_error", &[("GRIDZ_BACKEND", "gpu")], || {
        let array = Array::bytes(3).unwrap();
        let mut frame = [0; 100];
        let mut check =
            |context: &Context| gridz::compress(&array, &Request::default(), b"abc", &mut frame, context);
        let error = check(&Context::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.context().starts_with("GRIDZ_BACKEND=gpu "), "{error}");
        let n = check(&Context::lenient()).unwrap();
        let mut back = [0; 3];
        let mut read = |context: &Context| {
            gridz::decompress(&frame[..n], gridz::Part::All, &mut back, Verify::Checksum, context)
        };
        assert_eq!(read(&Context::default()).unwrap_err(), error);
        assert_eq!(read(&Context::lenient()).unwrap(), 3);
    });
}

#[test]
fn kernels_that_are_not_there_are_errors() {
    let error = gridz::device::kernels("nonsense").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Device);
    assert!(error.context().contains("CUDA kernels"), "{error}");
    // `make test` builds with kernels.
    if std::env::var_os("GRIDZ_CUDA").is_some_and(|value| value == "require") {
        gridz::device::kernels("ndzip").unwrap();
        // Only test builds contain these kernels.
        assert!(gridz::device::kernels("selftest").is_err());
    }
}

#[test]
fn an_image_that_is_no_whole_fatbin_is_refused() {
    let whole = [&0xba55_ed50_u32.to_le_bytes()[..], &[1, 0, 16, 0], &4u64.to_le_bytes(), b"code"].concat();
    let whole: &'static [u8] = whole.leak();
    Fatbin::new("whole", whole).unwrap();
    for image in [&whole[..19], &whole[..16], &whole[..5], &whole[1..], &[]] {
        let error = Fatbin::new("part", image).unwrap_err();
        assert_eq!(error.context(), "part is not a complete CUDA fatbin");
    }
}

//! Slices and vectors of numbers, and requests as Rust values.

use gridz::{
    Array, ByteOrder, Codec, Context, DType, ErrorKind, Level, Request, Shape, compress_slice, decompress_vec,
};

/// The request that a value stands for.
fn request(value: impl gridz::IntoRequest) -> gridz::Result<Request> {
    value.into_request()
}

#[test]
fn every_element_type_comes_back() {
    macro_rules! check {
        ($($type:ty: $of:expr;)+) => {$({
            let of: fn(u8) -> $type = $of;
            let values: Vec<$type> = (0..=255).map(of).collect();
            let frame = compress_slice(&values, &[4, 64], "lorenzo").unwrap();
            assert_eq!(gridz::inspect(&frame).unwrap().array.dtype(), <$type as gridz::Element>::DTYPE);
            assert_eq!(decompress_vec::<$type>(&frame).unwrap(), (values, vec![4, 64]));
        })+};
    }
    check! {
        u8: |x| x;
        u16: |x| u16::from(x) * 257;
        u32: |x| u32::from(x) * 65_537;
        u64: |x| u64::from(x) << 50;
        i8: |x| x as i8;
        i16: |x| i16::from(x) - 128;
        i32: |x| -i32::from(x);
        i64: |x| -i64::from(x) << 40;
        f32: |x| f32::from(x).sqrt();
        f64: |x| f64::from(x).sqrt();
        [f32; 2]: |x| [f32::from(x), -1.0];
        [f64; 2]: |x| [0.5, f64::from(x)];
    }
}

#[test]
fn scalars_and_empty_arrays_come_back() {
    let frame = compress_slice(&[7u32], &[], "lorenzo").unwrap();
    assert_eq!(decompress_vec::<u32>(&frame).unwrap(), (vec![7], vec![]));
    let frame = compress_slice::<f32>(&[], &[3, 0], "lorenzo").unwrap();
    assert_eq!(decompress_vec::<f32>(&frame).unwrap(), (vec![], vec![3, 0]));
}

#[test]
fn a_bound_is_kept() {
    let field: Vec<f64> = (0..8000).map(|i| (f64::from(i) * 0.01).sin()).collect();
    for codec in [Codec::Quant, Codec::Multigrid, Codec::Zfp] {
        let frame = compress_slice(&field, &[20, 20, 20], codec.abs(1e-3)).unwrap();
        assert!(frame.len() < 8 * field.len() / 2, "{codec:?}");
        let (back, _) = decompress_vec::<f64>(&frame).unwrap();
        assert!(field.iter().zip(&back).all(|(a, b)| (a - b).abs() <= 1e-3), "{codec:?}");
    }
}

#[test]
fn elements_of_the_other_byte_order_are_swapped() {
    let other = if ByteOrder::NATIVE == ByteOrder::Little { ByteOrder::Big } else { ByteOrder::Little };
    let values = [1.5f32, -2.0, 1e20, 0.0];
    let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_bits().swap_bytes().to_ne_bytes()).collect();
    for (dtype, extent) in [(DType::F32, 4), (DType::C64, 2)] {
        let array = Array::new(dtype, other, Shape::new(&[extent]).unwrap()).unwrap();
        let mut frame = vec![0; gridz::compress_bound(&array, &Request::default()).unwrap() as usize];
        let n = gridz::compress(&array, &Request::default(), &bytes, &mut frame, &Context::default()).unwrap();
        match dtype {
            DType::F32 => assert_eq!(decompress_vec::<f32>(&frame[..n]).unwrap().0, values),
            _ => assert_eq!(decompress_vec::<[f32; 2]>(&frame[..n]).unwrap().0.as_flattened(), values),
        }
    }
}

#[test]
fn text_and_values_are_the_same_requests() {
    for (value, text) in [
        (request(Codec::Lorenzo), "lorenzo"),
        (request(Codec::Lorenzo.level(Level::Max)), "lorenzo,level=max"),
        (request(Codec::Quant.abs(0.01)), "quant,abs=0.01"),
        (request(Codec::Quant.rel(1e-4).level(Level::Dense)), "quant,rel=1e-4,level=dense"),
        (request(Codec::Quant.pwrel(1e-4)), "quant,pwrel=1e-4"),
        (request(Codec::Multigrid.rms(0.5)), "multigrid,rms=0.5"),
        (request(Codec::Zfp.rate(8.0)), "zfp,rate=8"),
        (request(Codec::Zfp), "zfp"),
        (request(Codec::Stored), "stored"),
        (request(Codec::Ndzip), "ndzip"),
        (request(Codec::Huffman), "huffman"),
        (request(Codec::Cci.level(Level::Fast)), "cci,level=fast"),
    ] {
        assert_eq!(value.unwrap(), text.parse().unwrap(), "{text}");
        assert_eq!(request(text).unwrap(), request(&text.to_owned()).unwrap());
    }
    assert_eq!(Request::try_from(Codec::Lorenzo).unwrap(), Request::default());
}

#[test]
fn mistakes_are_errors_with_the_remedy() {
    let error = |frame: gridz::Result<Vec<u8>>| {
        let error = frame.unwrap_err();
        (error.kind(), error.to_string())
    };
    let values = [0f32; 6];
    let length = "the slice has 6 elements, but extents of [2, 4] need 8".to_owned();
    assert_eq!(error(compress_slice(&values, &[2, 4], "lorenzo")), (ErrorKind::InvalidArgument, length));
    let (kind, text) = error(compress_slice(&values, &[1 << 40, 1 << 40], "lorenzo"));
    assert!(kind == ErrorKind::InvalidArgument && text.contains("too large"), "{text}");
    for (request, says) in
        [("lorenz", "\"lorenz\" is unknown"), ("quant,eps=1", "\"eps=1\" is unknown"), ("quant,abs=x", "NUMBER")]
    {
        let (kind, text) = error(compress_slice(&values, &[6], request));
        assert!(
            matches!(kind, ErrorKind::InvalidArgument | ErrorKind::UnsupportedJob) && text.contains(says),
            "{text}"
        );
    }
    for setting in [
        Codec::Quant.level(Level::Fast),
        Codec::Lorenzo.abs(1.0),
        Codec::Quant.abs(0.0),
        Codec::Quant.abs(f64::NAN),
    ] {
        assert!(compress_slice(&values, &[6], setting).is_err(), "{setting:?}");
    }
    assert!(request(Codec::Zfp.level(Level::Max)).unwrap_err().to_string().contains("level"));

    let mut frame = compress_slice(&values, &[6], "lorenzo").unwrap();
    let text = decompress_vec::<f64>(&frame).unwrap_err().to_string();
    assert_eq!(text, "the frame has elements of type float32, but f64 was requested, which is float64");
    assert_eq!(decompress_vec::<f32>(&frame[..frame.len() - 1]).unwrap_err().kind(), ErrorKind::Truncated);
    assert_eq!(
        decompress_vec::<f32>(b"no frame").unwrap_err().kind(),
        decompress_vec::<u8>(b"no frame").unwrap_err().kind()
    );
    let last = frame.len() - 1;
    frame[last] ^= 1;
    assert!(decompress_vec::<f32>(&frame).is_err());
}

#[test]
fn arrays_of_ndarray_come_back_in_any_layout() {
    let field = ndarray::Array3::from_shape_fn((6, 7, 8), |(z, y, x)| (x * y + z) as f32);
    let frame = gridz::compress_array(&field, "lorenzo").unwrap();
    assert_eq!(frame, compress_slice(field.as_slice().unwrap(), &[6, 7, 8], "lorenzo").unwrap());
    let transposed = field.t();
    let back =
        gridz::decompress_array::<f32>(&gridz::compress_array(&transposed, Codec::Lorenzo).unwrap()).unwrap();
    assert_eq!(back, transposed.into_dyn());
}

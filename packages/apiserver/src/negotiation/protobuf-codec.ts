import type { ProtobufCodec } from '../request/response.ts';

let codec: ProtobufCodec | undefined;

/** Loads the protobuf codec. Must be awaited before anything is encoded as protobuf: the field tables are large and loaded on first use. */
export async function loadCodec(): Promise<ProtobufCodec> {
  codec ??= (await import('./internal/protobuf-encoder.ts')).protobufCodec;
  return codec;
}

/** Returns the codec, or undefined before `loadCodec` has resolved. */
export const loadedCodec = (): ProtobufCodec | undefined => codec;

import type { ProtobufCodec } from '../request/response.ts';

let codec: ProtobufCodec | undefined;

/** Loads the protobuf codec, whose field tables are large. Must be awaited before anything is encoded as protobuf. */
export async function loadCodec(): Promise<ProtobufCodec> {
  codec ??= (await import('./internal/protobuf-encoder.ts')).protobufCodec;
  return codec;
}

/** Returns the protobuf codec; undefined before `loadCodec` has resolved. */
export const loadedCodec = (): ProtobufCodec | undefined => codec;

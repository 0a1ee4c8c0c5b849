import type { ProtobufCodec } from '../request/response.ts';

let codec: ProtobufCodec | undefined;

/** To be waited for before anything is encoded as protobuf: the tables are large and not loaded before they are needed. */
export async function loadCodec(): Promise<ProtobufCodec> {
  codec ??= (await import('./internal/protobuf-encoder.ts')).protobufCodec;
  return codec;
}

/** Undefined until somebody has waited for it. */
export const loadedCodec = (): ProtobufCodec | undefined => codec;

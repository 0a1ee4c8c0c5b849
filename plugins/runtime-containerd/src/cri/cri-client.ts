import { type CallOptions, type Client, Metadata, status as grpc, type ClientReadableStream, type ServiceError } from '@grpc/grpc-js';
import { unixChannel } from '@oarlock/grpc/unix-channel';
import { formatTraceparent } from '@oarlock/kernel/tracing';
import type { RuntimeCallOptions } from '@oarlock/spi/runtime';
import { codec } from './codec.ts';
import { toRuntimeError } from './runtime-errors.ts';

/** The maximum size of a message, which is also the limit of the runtimes. */
const maxMessageBytes = 16 * 1024 * 1024;
const imageMethods: ReadonlySet<string> = new Set(['ListImages', 'ImageStatus', 'PullImage', 'RemoveImage', 'ImageFsInfo']);

export interface CriClientOptions {
  readonly socket: string;
  /** The timeout of calls that specify none. Milliseconds. */
  readonly timeoutMs: number;
}

/** A gRPC connection to the runtime's socket. It reconnects when the runtime restarts. */
export class CriClient {
  readonly #client: Client;
  readonly #timeoutMs: number;

  constructor({ socket, timeoutMs }: CriClientOptions) {
    this.#timeoutMs = timeoutMs;
    this.#client = unixChannel({ socket, maxMessageBytes });
  }

  /** Calls a CRI method. @throws RuntimeError if the call fails, the signal's reason if the signal aborts */
  cri<Response extends object>(
    method: string,
    request: object,
    call: RuntimeCallOptions = {},
    timeoutMs = this.#timeoutMs,
  ): Promise<Response> {
    const service = imageMethods.has(method) ? 'ImageService' : 'RuntimeService';
    return this.unary('cri', `/runtime.v1.${service}/${method}`, `${method}Request`, `${method}Response`, request, call, timeoutMs);
  }

  /** Makes a unary call to a method by its full path. `timeoutMs` may be Infinity. @throws RuntimeError if it fails, the signal's reason if it aborts */
  unary<Response extends object>(
    table: 'cri' | 'containerd',
    path: string,
    requestType: string,
    responseType: string,
    request: object,
    { signal, spanContext }: RuntimeCallOptions,
    timeoutMs: number,
  ): Promise<Response> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    const options: CallOptions = Number.isFinite(timeoutMs) ? { deadline: Date.now() + timeoutMs } : {};
    return new Promise((resolve, reject) => {
      const abort = () => call.cancel();
      const done = (error: ServiceError | null, response?: Response) => {
        signal?.removeEventListener('abort', abort);
        if (!error && response) resolve(response);
        else if (signal?.aborted) reject(signal.reason);
        else reject(toRuntimeError(error ?? noResponse));
      };
      const call = this.#client.makeUnaryRequest(
        path,
        codec(table, requestType).encode,
        codec<Response>(table, responseType).decode,
        request,
        metadata(table, spanContext),
        options,
        done,
      );
      signal?.addEventListener('abort', abort, { once: true });
    });
  }

  /** Opens a server stream, which ends when it is cancelled or fails. */
  stream<Item extends object>(
    table: 'cri' | 'containerd',
    path: string,
    { requestType, itemType, request }: { readonly requestType: string; readonly itemType: string; readonly request: object },
  ): ClientReadableStream<Item> {
    return this.#client.makeServerStreamRequest(
      path,
      codec(table, requestType).encode,
      codec<Item>(table, itemType).decode,
      request,
      metadata(table),
    );
  }

  close(): void {
    this.#client.close();
  }
}

const noResponse: ServiceError = Object.assign(new Error('no response'), {
  code: grpc.INTERNAL,
  details: 'no response',
  metadata: new Metadata(),
});

function metadata(table: 'cri' | 'containerd', spanContext?: RuntimeCallOptions['spanContext']): Metadata {
  const result = new Metadata();
  // the containerd namespace of its CRI plugin
  if (table === 'containerd') result.set('containerd-namespace', 'k8s.io');
  if (spanContext) result.set('traceparent', formatTraceparent(spanContext));
  return result;
}

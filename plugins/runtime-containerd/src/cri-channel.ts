import {
  type CallOptions,
  Client,
  credentials,
  Metadata,
  status as grpc,
  type ClientReadableStream,
  type ServiceError,
} from '@grpc/grpc-js';
import { formatTraceparent } from '@oarlock/kernel/tracing';
import type { RuntimeCall } from '@oarlock/spi/runtime';
import { codec } from './codec.ts';
import { toRuntimeError } from './runtime-errors.ts';

/** As large as the runtimes' own limit. */
const largestMessage = 16 * 1024 * 1024;
const imageMethods: ReadonlySet<string> = new Set(['ListImages', 'ImageStatus', 'PullImage', 'RemoveImage', 'ImageFsInfo']);

export interface CriChannelOptions {
  readonly socket: string;
  /** For calls that state no time of their own. Milliseconds. */
  readonly timeoutMs: number;
}

/** One gRPC connection to the socket. It comes back by itself when the runtime was restarted. */
export class CriChannel {
  readonly #client: Client;
  readonly #timeoutMs: number;

  constructor({ socket, timeoutMs }: CriChannelOptions) {
    this.#timeoutMs = timeoutMs;
    this.#client = new Client(`unix:${socket}`, credentials.createInsecure(), {
      // Go's server refuses a path as the authority
      'grpc.default_authority': 'localhost',
      'grpc.max_receive_message_length': largestMessage,
      'grpc.initial_reconnect_backoff_ms': 100,
      'grpc.min_reconnect_backoff_ms': 100,
      'grpc.max_reconnect_backoff_ms': 3_000,
    });
  }

  /** Calls a method of CRI. @throws RuntimeError; the signal's reason when it aborts */
  cri<Response extends object>(method: string, request: object, call: RuntimeCall = {}, timeoutMs = this.#timeoutMs): Promise<Response> {
    const service = imageMethods.has(method) ? 'ImageService' : 'RuntimeService';
    return this.unary('cri', `/runtime.v1.${service}/${method}`, `${method}Request`, `${method}Response`, request, call, timeoutMs);
  }

  unary<Response extends object>(
    table: 'cri' | 'containerd',
    path: string,
    requestType: string,
    responseType: string,
    request: object,
    { signal, cause }: RuntimeCall,
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
        else reject(toRuntimeError(error ?? noAnswer));
      };
      const call = this.#client.makeUnaryRequest(
        path,
        codec(table, requestType).encode,
        codec<Response>(table, responseType).decode,
        request,
        metadata(table, cause),
        options,
        done,
      );
      signal?.addEventListener('abort', abort, { once: true });
    });
  }

  /** A stream from the server; it ends by `cancel`, or with an error. */
  stream<Item extends object>(
    table: 'cri' | 'containerd',
    path: string,
    requestType: string,
    itemType: string,
    request: object,
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

const noAnswer: ServiceError = Object.assign(new Error('no answer'), {
  code: grpc.INTERNAL,
  details: 'no answer',
  metadata: new Metadata(),
});

function metadata(table: 'cri' | 'containerd', cause?: RuntimeCall['cause']): Metadata {
  const made = new Metadata();
  // CRI keeps its containers in this namespace of containerd
  if (table === 'containerd') made.set('containerd-namespace', 'k8s.io');
  if (cause) made.set('traceparent', formatTraceparent(cause));
  return made;
}

import type { Client, ServiceError } from '@grpc/grpc-js';
import { goErrorText } from '@oarlock/primitives/net/go-error-text';
import { GrpcError, grpcCode } from './grpc-error.ts';
import type { MessageTable } from './message-table.ts';
import { unixChannel } from './unix-channel.ts';

/** The default of gRPC. */
const maxMessageBytes = 4 * 1024 * 1024;

export interface UnixClientOptions {
  readonly socket: string;
  readonly table: MessageTable;
  /** The deadline in milliseconds of calls without a timeout of their own. */
  readonly timeoutMs: number;
}

/** A gRPC client with one connection to a Unix socket. The client reconnects when the server restarts. */
export class UnixClient {
  readonly #client: Client;
  readonly #table: MessageTable;
  readonly #timeoutMs: number;

  constructor({ socket, table, timeoutMs }: UnixClientOptions) {
    this.#table = table;
    this.#timeoutMs = timeoutMs;
    this.#client = unixChannel({ socket, maxMessageBytes });
  }

  /**
   * Makes a unary call and returns the response.
   * @param service the full name, such as `csi.v1.Node`
   * @param types the message types of request and response; by default `<method>Request` and `<method>Response`
   * @throws GrpcError if the call fails; the signal's reason if it aborts
   */
  call<Response extends object>(
    service: string,
    method: string,
    request: object,
    {
      signal,
      timeoutMs = this.#timeoutMs,
      types = [`${method}Request`, `${method}Response`],
    }: { readonly signal?: AbortSignal | undefined; readonly timeoutMs?: number; readonly types?: readonly [string, string] } = {},
  ): Promise<Response> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    return new Promise((resolve, reject) => {
      const abort = () => call.cancel();
      const done = (error: ServiceError | null, response?: Response) => {
        signal?.removeEventListener('abort', abort);
        if (!error && response) resolve(response);
        else if (signal?.aborted) reject(signal.reason);
        else reject(toGrpcError(error));
      };
      const call = this.#client.makeUnaryRequest(
        `/${service}/${method}`,
        this.#table.codec(types[0]).encode,
        this.#table.codec<Response>(types[1]).decode,
        request,
        { deadline: Date.now() + timeoutMs },
        done,
      );
      signal?.addEventListener('abort', abort, { once: true });
    });
  }

  /**
   * Yields the messages of a server stream until the server ends the stream.
   * @throws GrpcError if the stream ends with an error; the signal's reason if it aborts
   */
  async *stream<Response extends object>(
    service: string,
    method: string,
    request: object,
    { signal, types }: { readonly signal: AbortSignal; readonly types: readonly [string, string] },
  ): AsyncGenerator<Response> {
    signal.throwIfAborted();
    const call = this.#client.makeServerStreamRequest(
      `/${service}/${method}`,
      this.#table.codec(types[0]).encode,
      this.#table.codec<Response>(types[1]).decode,
      request,
    );
    const abort = () => call.cancel();
    signal.addEventListener('abort', abort, { once: true });
    try {
      for await (const response of call as AsyncIterable<Response>) yield response;
    } catch (error) {
      signal.throwIfAborted();
      throw toGrpcError(error as ServiceError);
    } finally {
      signal.removeEventListener('abort', abort);
      call.cancel();
    }
  }

  close(): void {
    this.#client.close();
  }
}

function toGrpcError(error: ServiceError | null): GrpcError {
  if (!error) return new GrpcError('UNKNOWN', 'the call ended without a response');
  const details = error.details || error.message;
  const [, code, address] = /Last error: .*connect (E[A-Z]+) (\/\S+?)\.? /.exec(details) ?? [];
  if (code === undefined || address === undefined) return new GrpcError(grpcCode(error.code), details, { cause: error });
  const dial = goErrorText(Object.assign(new Error(details), { code, syscall: 'connect', address }));
  return new GrpcError(grpcCode(error.code), `connection error: desc = "transport: Error while dialing: ${dial}"`, { cause: error });
}

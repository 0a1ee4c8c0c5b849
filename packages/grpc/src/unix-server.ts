import { mkdir, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Server, ServerCredentials, status, type sendUnaryData, type ServerUnaryCall } from '@grpc/grpc-js';
import { GrpcError } from './grpc-error.ts';
import { restrictToOwner } from './internal/socket-mode.ts';
import type { MessageTable } from './message-table.ts';

/**
 * The functions that implement a service, by method name. A thrown GrpcError determines the status of the call; any other error becomes
 * INTERNAL.
 */
export type Methods = Readonly<Record<string, (request: never) => object | Promise<object>>>;

export interface UnixServerOptions {
  /** The message types of methods, by method name, if they are not named `<method>Request` and `<method>Response`. */
  readonly types?: Readonly<Record<string, readonly [request: string, response: string]>>;
  /** The path of the socket. An existing file at this path is replaced. Only the owner of the socket can connect. */
  readonly socket: string;
  readonly table: MessageTable;
  /** The methods of each service, by full service name such as `csi.v1.Node`. */
  readonly services: Readonly<Record<string, Methods>>;
  /** Called for every call that fails. */
  onError?(path: string, error: unknown): void;
}

/** Starts a gRPC server on a Unix socket. Resolves when the server listens. */
export async function serveUnix({ socket, table, services, types = {}, onError }: UnixServerOptions): Promise<{ close(): Promise<void> }> {
  await mkdir(dirname(socket), { recursive: true, mode: 0o700 });
  await rm(socket, { force: true });
  const server = new Server();
  for (const [service, methods] of Object.entries(services)) {
    const paths = Object.keys(methods).map((method) => {
      const [requestType, responseType] = types[method] ?? [`${method}Request`, `${method}Response`];
      const request = table.codec(requestType);
      const response = table.codec(responseType);
      return [
        method,
        {
          path: `/${service}/${method}`,
          requestStream: false,
          responseStream: false,
          requestSerialize: request.encode,
          requestDeserialize: request.decode,
          responseSerialize: response.encode,
          responseDeserialize: response.decode,
        },
      ] as const;
    });
    const handlers = Object.entries(methods).map(([method, handler]) => [
      method,
      (call: ServerUnaryCall<object, object>, done: sendUnaryData<object>) => {
        void Promise.resolve()
          .then(() => handler(call.request as never))
          .then(
            (response) => done(null, response),
            (error: unknown) => {
              onError?.(`/${service}/${method}`, error);
              done({
                code: status[error instanceof GrpcError ? error.code : 'INTERNAL'],
                details: error instanceof Error ? error.message : String(error),
              });
            },
          );
      },
    ]);
    server.addService(Object.fromEntries(paths), Object.fromEntries(handlers));
  }
  await new Promise<void>((resolve, reject) =>
    server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) => (error ? reject(error) : resolve())),
  );
  try {
    await restrictToOwner(socket);
  } catch (error) {
    server.forceShutdown();
    throw error;
  }
  return {
    close: async () => {
      await new Promise<void>((resolve) => {
        server.tryShutdown(() => resolve());
        server.forceShutdown();
      });
      await rm(socket, { force: true });
    },
  };
}

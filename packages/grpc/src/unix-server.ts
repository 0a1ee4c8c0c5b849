import { chmod, mkdir, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Server, ServerCredentials, status, type sendUnaryData, type ServerUnaryCall } from '@grpc/grpc-js';
import { GrpcError } from './grpc-error.ts';
import type { MessageTable } from './message-table.ts';

/** By method: what it answers. A GrpcError becomes its status, whatever else is thrown becomes INTERNAL. */
export type Methods = Readonly<Record<string, (request: never) => object | Promise<object>>>;

export interface UnixServerOptions {
  /** The messages of methods whose names are not `<method>Request` and `<method>Response`. */
  readonly types?: Readonly<Record<string, readonly [request: string, response: string]>>;
  /** Made anew: what is there under this name is removed. Only its owner may connect. */
  readonly socket: string;
  readonly table: MessageTable;
  /** By service, such as `csi.v1.Node`. */
  readonly services: Readonly<Record<string, Methods>>;
  /** Told of every call that failed. */
  failed?(path: string, error: unknown): void;
}

/** Serves gRPC on a socket until it is closed. Resolves when it listens. */
export async function unixServer({ socket, table, services, types = {}, failed }: UnixServerOptions): Promise<{ close(): Promise<void> }> {
  await mkdir(dirname(socket), { recursive: true, mode: 0o700 });
  await rm(socket, { force: true });
  const server = new Server();
  for (const [service, methods] of Object.entries(services)) {
    const paths = Object.keys(methods).map((method) => {
      const [asked, answered] = types[method] ?? [`${method}Request`, `${method}Response`];
      const request = table.codec(asked);
      const response = table.codec(answered);
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
    const handlers = Object.entries(methods).map(([method, answer]) => [
      method,
      (call: ServerUnaryCall<object, object>, done: sendUnaryData<object>) => {
        void Promise.resolve()
          .then(() => answer(call.request as never))
          .then(
            (response) => done(null, response),
            (error: unknown) => {
              failed?.(`/${service}/${method}`, error);
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
  await chmod(socket, 0o600);
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

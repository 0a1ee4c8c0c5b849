import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type handleServerStreamingCall,
  type handleUnaryCall,
  Metadata,
  Server,
  ServerCredentials,
  type status,
  type StatusObject,
} from '@grpc/grpc-js';
import { codec } from '../../src/cri/codec.ts';

type Unary = (
  request: Record<string, unknown>,
  call: { readonly metadata: Metadata; readonly onCancel: (listener: () => void) => void },
) => object | Promise<object>;
type Stream = (send: (item: object) => void, end: () => void) => void;
export interface Methods {
  readonly unary?: Readonly<Record<string, Unary>>;
  /** Handlers of `GetContainerEvents`, or of `Subscribe` with its `Forward`. */
  readonly streams?: Readonly<Record<string, Stream>>;
}

export const failure = (code: status, details: string): Partial<StatusObject> & Error =>
  Object.assign(new Error(details), { code, details, metadata: new Metadata() });

/** A CRI server with the handlers of a test. Other methods are UNIMPLEMENTED, as in gRPC. */
export class CriServer {
  readonly dir: string;
  readonly socket: string;
  readonly calls: { readonly method: string; readonly request: Record<string, unknown>; readonly metadata: Metadata }[] = [];
  #server: Server | undefined;

  private constructor(dir: string) {
    this.dir = dir;
    this.socket = join(dir, 'runtime.sock');
  }

  static async start(methods: Methods): Promise<CriServer> {
    const server = new CriServer(await mkdtemp(join(tmpdir(), 'oarlock-cri-')));
    await server.restart(methods);
    return server;
  }

  async restart({ unary = {}, streams = {} }: Methods): Promise<void> {
    this.end();
    await rm(this.socket, { force: true });
    const server = new Server();
    this.#server = server;
    for (const [method, answer] of Object.entries(unary)) {
      const containerd = method === 'Forward' || method === 'Kill';
      const path =
        method === 'Forward'
          ? '/containerd.services.events.v1.Events/Forward'
          : method === 'Kill'
            ? '/containerd.services.tasks.v1.Tasks/Kill'
            : `/runtime.v1.${/Image/.test(method) ? 'ImageService' : 'RuntimeService'}/${method}`;
      const table = containerd ? 'containerd' : 'cri';
      const request = codec<Record<string, unknown>>(table, `${method}Request`);
      const response = codec<object>(table, containerd ? 'Empty' : `${method}Response`);
      const handler: handleUnaryCall<Record<string, unknown>, object> = (call, done) => {
        this.calls.push({ method, request: call.request, metadata: call.metadata });
        Promise.resolve()
          .then(() => answer(call.request, { metadata: call.metadata, onCancel: (listener) => call.on('cancelled', listener) }))
          .then(
            (value) => done(null, value),
            (error: Error) => done(error),
          );
      };
      server.register(path, handler, response.encode, request.decode, 'unary');
    }
    for (const [method, run] of Object.entries(streams)) {
      const [path, table, requestType, itemType] =
        method === 'Subscribe'
          ? (['/containerd.services.events.v1.Events/Subscribe', 'containerd', 'SubscribeRequest', 'Envelope'] as const)
          : (['/runtime.v1.RuntimeService/GetContainerEvents', 'cri', 'GetContainerEventsRequest', 'ContainerEventResponse'] as const);
      const handler: handleServerStreamingCall<object, object> = (call) =>
        run(
          (item) => call.write(item),
          () => call.end(),
        );
      server.register(path, handler, codec<object>(table, itemType).encode, codec<object>(table, requestType).decode, 'serverStream');
    }
    await new Promise<void>((resolve, reject) => {
      server.bindAsync(`unix:${this.socket}`, ServerCredentials.createInsecure(), (error) => (error ? reject(error) : resolve()));
    });
  }

  /** Closes all connections, as a crash would. */
  end(): void {
    this.#server?.forceShutdown();
    this.#server = undefined;
  }

  async dispose(): Promise<void> {
    this.end();
    await rm(this.dir, { recursive: true, force: true });
  }
}

export const version = { version: '0.1.0', runtimeName: 'test', runtimeVersion: '1.2.3', runtimeApiVersion: 'v1' };
export const empty: Unary = () => ({});
export const noSandboxes: Methods['unary'] = {
  Version: () => version,
  ListPodSandbox: () => ({ items: [] }),
  ListContainers: () => ({ containers: [] }),
};

import { GrpcError } from '@oarlock/grpc/grpc-error';
import { UnixClient } from '@oarlock/grpc/unix-client';
import { unixServer } from '@oarlock/grpc/unix-server';
import { deviceMessages, type ContainerDevices, type RegisterRequest } from './device-messages.ts';

const service = 'v1beta1.DevicePlugin';
const timeoutMs = 60_000;

/** One device plugin: what it has of its resource, and what it gives to containers. */
export class DevicePlugin {
  readonly resource: string;
  readonly preStart: boolean;
  /** By id: whether it can be used. */
  readonly devices = new Map<string, boolean>();
  readonly #client: UnixClient;
  readonly #stop = new AbortController();

  constructor(socket: string, { resourceName, options }: RegisterRequest) {
    this.resource = resourceName;
    this.preStart = options?.preStartRequired === true;
    this.#client = new UnixClient({ socket, table: deviceMessages, timeoutMs });
  }

  /** Follows the plugin's devices until it ends or is stopped; then none can be used any more. `changed` is told each time. */
  async follow(changed: () => void): Promise<void> {
    const { signal } = this.#stop;
    const types = ['Empty', 'ListAndWatchResponse'] as const;
    interface Listed {
      readonly devices: readonly { readonly ID: string; readonly health: string }[];
    }
    try {
      for await (const { devices } of this.#client.stream<Listed>(service, 'ListAndWatch', {}, { signal, types })) {
        this.devices.clear();
        for (const { ID, health } of devices) this.devices.set(ID, health === 'Healthy');
        changed();
      }
    } finally {
      for (const id of this.devices.keys()) this.devices.set(id, false);
      changed();
    }
  }

  /** @throws GrpcError */
  async allocate(ids: readonly string[], signal: AbortSignal): Promise<ContainerDevices | undefined> {
    const { containerResponses } = await this.#client.call<{ containerResponses: readonly ContainerDevices[] }>(
      service,
      'Allocate',
      { containerRequests: [{ devicesIDs: ids }] },
      { signal },
    );
    return containerResponses[0];
  }
  /** @throws GrpcError */
  async beforeStart(ids: readonly string[], signal: AbortSignal): Promise<void> {
    if (this.preStart) await this.#client.call(service, 'PreStartContainer', { devicesIDs: ids }, { signal });
  }

  stop(): void {
    this.#stop.abort();
    this.#client.close();
  }
}

/** Listens for plugins. `register` takes one, or says why not. @throws Error when it cannot listen */
export function serveRegistration(
  socket: string,
  { register, failed }: { register(request: RegisterRequest): string | undefined; failed(error: unknown): void },
): Promise<{ close(): Promise<void> }> {
  return unixServer({
    socket,
    table: deviceMessages,
    services: {
      'v1beta1.Registration': {
        Register: (request: RegisterRequest) => {
          const problem = register(request);
          if (problem !== undefined) throw new GrpcError('INVALID_ARGUMENT', problem);
          return {};
        },
      },
    },
    failed: (_path, error) => failed(error),
  });
}

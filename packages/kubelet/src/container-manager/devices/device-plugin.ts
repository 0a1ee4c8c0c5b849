import { GrpcError } from '@oarlock/grpc/grpc-error';
import { UnixClient } from '@oarlock/grpc/unix-client';
import { serveUnix } from '@oarlock/grpc/unix-server';
import { devicePluginMessages, type ContainerDevices, type RegisterRequest } from './device-plugin-messages.ts';

const service = 'v1beta1.DevicePlugin';
const timeoutMs = 60_000;

/** A registered device plugin and its devices. */
export class DevicePlugin {
  readonly resource: string;
  readonly preStart: boolean;
  /** Whether each device is healthy, keyed by device id. */
  readonly devices = new Map<string, boolean>();
  readonly #client: UnixClient;
  readonly #stop = new AbortController();

  constructor(socket: string, { resourceName, options }: RegisterRequest) {
    this.resource = resourceName;
    this.preStart = options?.preStartRequired === true;
    this.#client = new UnixClient({ socket, table: devicePluginMessages, timeoutMs });
  }

  /**
   * Updates the devices from the plugin's ListAndWatch stream and calls `changed` after each update. When the stream ends or `stop` is called, all
   * devices become unhealthy.
   */
  async listAndWatch(changed: () => void): Promise<void> {
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

  /** Calls Allocate for the devices of one container. Returns undefined if the response has no container. @throws GrpcError if the call fails */
  async allocate(ids: readonly string[], signal: AbortSignal): Promise<ContainerDevices | undefined> {
    const { containerResponses } = await this.#client.call<{ containerResponses: readonly ContainerDevices[] }>(
      service,
      'Allocate',
      { containerRequests: [{ devicesIDs: ids }] },
      { signal },
    );
    return containerResponses[0];
  }
  /** Calls PreStartContainer if the plugin requires it. @throws GrpcError if the call fails */
  async preStartContainer(ids: readonly string[], signal: AbortSignal): Promise<void> {
    if (this.preStart) await this.#client.call(service, 'PreStartContainer', { devicesIDs: ids }, { signal });
  }

  stop(): void {
    this.#stop.abort();
    this.#client.close();
  }
}

/** Serves the registration socket. `register` returns why a device plugin is rejected. @throws Error if the socket cannot be opened */
export function serveRegistration(
  socket: string,
  { register, failed }: { register(request: RegisterRequest): string | undefined; failed(error: unknown): void },
): Promise<{ close(): Promise<void> }> {
  return serveUnix({
    socket,
    table: devicePluginMessages,
    services: {
      'v1beta1.Registration': {
        Register: (request: RegisterRequest) => {
          const problem = register(request);
          if (problem !== undefined) throw new GrpcError('INVALID_ARGUMENT', problem);
          return {};
        },
      },
    },
    onError: (_path, error) => failed(error),
  });
}

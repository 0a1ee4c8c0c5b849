import { MessageTable } from './message-table.ts';
import { UnixClient } from './unix-client.ts';

/** Messages of `pluginregistration.Registration` (v1), the service that node plugins serve and the kubelet calls. */
export const registrationTable = new MessageTable(
  {
    InfoRequest: {},
    PluginInfo: { type: '1 string', name: '2 string', endpoint: '3 string', supportedVersions: '4 repeated string' },
    RegistrationStatus: { pluginRegistered: '1 bool', error: '2 string' },
    RegistrationStatusResponse: {},
  },
  {},
  'undefined',
);

/** What a plugin reports about itself (PluginInfo upstream). */
export interface RegistrationInfo {
  /** `CSIPlugin`, `DRAPlugin`, `DevicePlugin`. */
  readonly type: string;
  readonly name: string;
  /** The socket of the plugin's own service. Empty if it is the registration socket. */
  readonly endpoint: string;
  readonly supportedVersions: readonly string[];
}
export interface RegistrationStatus {
  readonly pluginRegistered: boolean;
  /** Why the registration failed. */
  readonly error?: string;
}

const service = 'pluginregistration.Registration';
const timeoutMs = 10_000;

/** A client of one plugin's registration socket. */
export class RegistrationClient {
  readonly #client: UnixClient;

  constructor(socket: string) {
    this.#client = new UnixClient({ socket, table: registrationTable, timeoutMs });
  }

  /** @throws GrpcError; the signal's reason */
  getInfo(signal: AbortSignal): Promise<RegistrationInfo> {
    return this.#client.call(service, 'GetInfo', {}, { signal, types: ['InfoRequest', 'PluginInfo'] });
  }
  /** Notifies the plugin of the result of its registration. Most plugins exit if it failed. @throws GrpcError; the signal's reason */
  async notifyRegistrationStatus(status: RegistrationStatus, signal: AbortSignal): Promise<void> {
    await this.#client.call(service, 'NotifyRegistrationStatus', status, {
      signal,
      types: ['RegistrationStatus', 'RegistrationStatusResponse'],
    });
  }
  close(): void {
    this.#client.close();
  }
}

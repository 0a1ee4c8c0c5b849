import { MessageTable } from './message-table.ts';
import { UnixClient } from './unix-client.ts';

/** The messages of the service `pluginregistration.Registration` (v1), which node plugins serve and the kubelet calls. */
export const registrationTable = new MessageTable(
  {
    InfoRequest: {},
    PluginInfo: { type: '1 string', name: '2 string', endpoint: '3 string', supportedVersions: '4 repeated string' },
    RegistrationStatus: { pluginRegistered: '1 bool', error: '2 string' },
    RegistrationStatusResponse: {},
  },
  {},
  { absent: 'undefined' },
);

/** What a plugin reports about itself (PluginInfo upstream). */
export interface RegistrationInfo {
  /** The plugin type: `CSIPlugin`, `DRAPlugin` or `DevicePlugin`. */
  readonly type: string;
  readonly name: string;
  /** The path of the socket that serves the plugin's own API; empty if it is the registration socket. */
  readonly endpoint: string;
  readonly supportedVersions: readonly string[];
}
export interface RegistrationStatus {
  readonly pluginRegistered: boolean;
  /** The reason why the registration failed; absent if it succeeded. */
  readonly error?: string;
}

const service = 'pluginregistration.Registration';
const timeoutMs = 10_000;

/** A client of the registration service of one plugin. */
export class RegistrationClient {
  readonly #client: UnixClient;

  constructor(socket: string) {
    this.#client = new UnixClient({ socket, table: registrationTable, timeoutMs });
  }

  /** Returns the type, name and versions of the plugin (GetInfo). @throws GrpcError if the call fails; the signal's reason if it aborts */
  getInfo(signal: AbortSignal): Promise<RegistrationInfo> {
    return this.#client.call(service, 'GetInfo', {}, { signal, types: ['InfoRequest', 'PluginInfo'] });
  }
  /**
   * Notifies the plugin of the result of its registration. Most plugins exit if the registration failed.
   * @throws GrpcError if the call fails; the signal's reason if it aborts
   */
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

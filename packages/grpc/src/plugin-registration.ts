import { MessageTable } from './message-table.ts';
import { UnixClient } from './unix-client.ts';

/** `pluginregistration.Registration` (v1), which plugins of a node serve and the node calls. */
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

/** What a plugin that wants to be registered says of itself. */
export interface RegisteringPlugin {
  /** `CSIPlugin`, `DRAPlugin`, `DevicePlugin`. */
  readonly type: string;
  readonly name: string;
  /** The socket of the plugin itself; empty: the one that it registers with. */
  readonly endpoint: string;
  readonly supportedVersions: readonly string[];
}
export interface RegistrationStatus {
  readonly pluginRegistered: boolean;
  /** Why it is not. */
  readonly error?: string;
}

const service = 'pluginregistration.Registration';
const timeoutMs = 10_000;

/** The socket with which one plugin asks to be registered. */
export class PluginRegistration {
  readonly #client: UnixClient;

  constructor(socket: string) {
    this.#client = new UnixClient({ socket, table: registrationTable, timeoutMs });
  }

  /** @throws GrpcError; the signal's reason */
  info(signal: AbortSignal): Promise<RegisteringPlugin> {
    return this.#client.call(service, 'GetInfo', {}, { signal, types: ['InfoRequest', 'PluginInfo'] });
  }
  /** Tells the plugin what became of it; most end when they were refused. @throws GrpcError; the signal's reason */
  async tell(status: RegistrationStatus, signal: AbortSignal): Promise<void> {
    await this.#client.call(service, 'NotifyRegistrationStatus', status, {
      signal,
      types: ['RegistrationStatus', 'RegistrationStatusResponse'],
    });
  }
  close(): void {
    this.#client.close();
  }
}

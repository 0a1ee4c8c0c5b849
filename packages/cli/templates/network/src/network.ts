import { NetworkError, type NetworkDriver, type NodeNetwork } from '@oarlock/spi/network';

const toWrite = (call: string, what: string): Promise<never> =>
  Promise.reject(new NetworkError('PluginFailed', `write ${call} in src/network.ts: ${what}`));

export class __Class__ implements NetworkDriver {
  readonly traits = { namespace: 'node', podCIDR: '127.128.0.0/10', serviceCIDR: '127.96.0.0/16' } as const;

  #node: NodeNetwork | undefined;

  /** Again, and with other ranges, it keeps what was added. Make bridges, routes and rules here. */
  async setup(node: NodeNetwork): Promise<void> {
    this.#node = node;
  }
  add(): Promise<never> {
    return toWrite('add', 'give the attachment an address of podCIDRs, write it down before it is used, and resolve with it');
  }
  check(): Promise<never> {
    return toWrite('check', 'resolve where what add has made is still there, else throw CheckFailed');
  }
  /** Succeeds on what is gone: nothing was ever added. */
  async del(): Promise<void> {}
  async status(): Promise<{ readonly ready: boolean; readonly message: string }> {
    return this.#node === undefined ? { ready: false, message: '__ID__ is not set up' } : { ready: true, message: '' };
  }
  /** Nothing was ever added: there is nothing to free. */
  async gc(): Promise<void> {}
}

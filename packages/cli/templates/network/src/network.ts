import { NetworkError, type NetworkDriver, type NodeNetwork } from '@oarlock/spi/network';

const notImplemented = (call: string, task: string): Promise<never> =>
  Promise.reject(new NetworkError('PluginFailed', `implement ${call} in src/network.ts: ${task}`));

export class __Class__ implements NetworkDriver {
  readonly traits = { namespace: 'node', podCIDR: '127.128.0.0/10', serviceCIDR: '127.96.0.0/16' } as const;

  #node: NodeNetwork | undefined;

  /** Sets up bridges, routes and rules of the node. A later call with other ranges must keep existing attachments. */
  async setup(node: NodeNetwork): Promise<void> {
    this.#node = node;
  }
  add(): Promise<never> {
    return notImplemented('add', 'allocate an address of podCIDRs, store it on disk before it is used, and resolve with it');
  }
  check(): Promise<never> {
    return notImplemented('check', 'resolve if everything that add created still exists, otherwise throw CheckFailed');
  }
  /** Succeeds for an attachment that does not exist. */
  async del(): Promise<void> {}
  async status(): Promise<{ readonly ready: boolean; readonly message: string }> {
    return this.#node === undefined ? { ready: false, message: '__ID__ is not set up' } : { ready: true, message: '' };
  }
  /** Does nothing, because there are no attachments yet to free. */
  async gc(): Promise<void> {}
}

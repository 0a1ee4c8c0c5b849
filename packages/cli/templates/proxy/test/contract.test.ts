import { proxyContract } from '@oarlock/spi/proxy/contract';
import { __Class__ } from '../src/proxy.ts';

proxyContract('__ID__', async () => ({
  proxy: new __Class__(),
  podAddresses: [1, 2, 3, 4].map((n) => `127.130.7.${n}`),
  serviceAddresses: [1, 2, 3, 4].map((n) => `127.97.7.${n}`),
  // features that the proxy will never have, with the reason
  unsupported: {},
  dispose: async () => {},
}));

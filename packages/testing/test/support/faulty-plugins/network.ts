import { Network } from '@oarlock/spi/network';
import { config, orMisbehave } from './faults.ts';

/** Gives every attachment an address of its own; those of the pod with the plugin's name misbehave. */
export default Network.plugin({
  id: 'network-faulty',
  declares: { namespace: 'node', podCIDR: '127.128.0.0/16', serviceCIDR: '127.96.0.0/16' },
  config,
  create({ config: settings }) {
    let last = 0;
    return {
      traits: { namespace: 'node', podCIDR: '127.128.0.0/16', serviceCIDR: '127.96.0.0/16' },
      setup: async () => {},
      add({ pod }) {
        const attach = () => ({ ips: [`127.128.${(++last >> 8) & 255}.${last & 255}`] });
        return pod.name === settings.name ? orMisbehave(settings, attach) : Promise.resolve(attach());
      },
      check: async () => {},
      del: async () => {},
      status: async () => ({ ready: true, message: '' }),
      gc: async () => {},
    };
  },
});

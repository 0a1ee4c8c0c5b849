import { bridgePlugins, cniDirectories, missingBridgePlugins } from '../../nodes/rootless/bridge-plugins.ts';
import { ok, type Check } from './check.ts';

/** The CNI plugins with which pods get networks of their own. */
export const cniPlugins: Check = {
  name: 'CNI plugins',
  linux: true,
  async run({ machine }) {
    const missing = await missingBridgePlugins((path) => machine.exists(path));
    if (missing.length === 0) return ok(bridgePlugins.join(', '));
    return {
      level: 'warn',
      found: `${missing.join(', ')} not found in ${cniDirectories.join(' and ')}`,
      affects: 'Compositions with a bridge do not run, and neither does rootless, which gives pods of an ordinary user a network.',
      remedy: 'Install the package containernetworking-plugins.',
    };
  },
};

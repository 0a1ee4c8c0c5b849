import { tapPrograms } from '../../nodes/rootless/tap-device.ts';
import { ok, type Check } from './check.ts';

const device = '/dev/net/tun';

/** The way of traffic out of a node without root. */
export const tapDevice: Check = {
  name: 'tap device',
  linux: true,
  async run({ machine }) {
    if (machine.root) return ok('not needed as root');
    const program = tapPrograms.find((name) => machine.findProgram(name) !== undefined);
    const affects = 'rootless: traffic leaves the node by a relay, TCP and UDP only and with 20 ms more for each connection.';
    if (program === undefined)
      return { level: 'warn', found: `${tapPrograms.join(' and ')} not installed`, affects, remedy: 'Install the package slirp4netns.' };
    if (!(await machine.isWritable(device)))
      return { level: 'warn', found: `${device} cannot be opened`, affects, remedy: `Run \`sudo chmod 666 ${device}\`.` };
    return ok(program);
  },
};

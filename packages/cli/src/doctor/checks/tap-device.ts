import { tapPrograms, tunDevice } from '../../nodes/rootless/tap-device.ts';
import { ok, type Check } from './check.ts';

/** A program, and the device for it, through which the traffic of a node without root leaves. */
export const tapDevice: Check = {
  name: 'tap device',
  linux: true,
  async run({ machine }) {
    if (machine.root) return ok('not needed as root');
    const program = tapPrograms.find((name) => machine.findProgram(name) !== undefined);
    const affects = 'rootless: traffic leaves the node by a relay, TCP and UDP only and with 20 ms more for each connection.';
    if (program === undefined)
      return { level: 'warn', found: `${tapPrograms.join(' and ')} not installed`, affects, remedy: 'Install the package slirp4netns.' };
    if (!(await machine.isWritable(tunDevice)))
      return { level: 'warn', found: `${tunDevice} cannot be opened`, affects, remedy: `Run \`sudo chmod 666 ${tunDevice}\`.` };
    return ok(program);
  },
};

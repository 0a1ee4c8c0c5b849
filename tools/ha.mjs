// `npm run ha -- [--rounds N] [--seconds N] [--seed N]`: three servers on three etcd members under random faults, and three machines with managed etcd, with the history of all clients checked.
import { join } from 'node:path';
import { argumentsOf } from './arguments.mjs';
import { checkoutOf } from './checkout.mjs';
import { root, run, setup } from './setup.mjs';

/** The commit before servers kept their identity and keys in the storage. */
const beforeSharedKeys = 'd5f789f';
const usage = `npm run ha -- [--rounds N] [--seconds N] [--seed N] [--certificates | --clock | --disk | --scale [--nodes N] [--pods N] | --upgrade [--from COMMIT]]
  --rounds N   number of faults for each kind of cluster; without it, faults are injected for a bounded time
  --seconds N  time in which faults are injected, without --rounds; default 45
  --seed N     seed of the faults and of the requests; default 36
  --certificates  only the renewal of certificates that live ten minutes; takes a quarter of an hour
  --clock      only a server whose clock jumps, by faketime; takes two minutes
  --disk       only full, failing and slow disks of storage-embedded and of a member of etcd; needs root
  --scale      only simulated nodes and pods on three servers, of which one is killed
  --nodes N    number of nodes of --scale; default 300
  --pods N     number of pods of --scale; default ten for each node
  --upgrade    only the upgrade of three servers and three nodes from another commit, one by one under load, and the rollback
  --from COMMIT  the commit of --upgrade, which is built once below .reports; default: ${beforeSharedKeys}, the last one without shared keys of servers`;
const args = argumentsOf(usage, {
  flags: ['--certificates', '--clock', '--disk', '--scale', '--upgrade'],
  values: { '--rounds': [], '--seconds': [], '--seed': [], '--from': [], '--nodes': [], '--pods': [] },
});
await setup({ system: true });
const from = args['--from'] ?? beforeSharedKeys;
const nodes = Number(args['--nodes'] ?? 300);
const env = {
  ...process.env,
  ...(args['--rounds'] !== undefined && { OARLOCK_HA_ROUNDS: args['--rounds'], OARLOCK_ROUNDS: args['--rounds'] }),
  ...(args['--rounds'] === undefined && { OARLOCK_HA_SECONDS: args['--seconds'] ?? '45' }),
  ...(args['--seed'] !== undefined && { OARLOCK_SEED: args['--seed'] }),
  ...(args['--certificates'] && { OARLOCK_HA_CERTIFICATES: '1' }),
  ...(args['--clock'] && { OARLOCK_HA_CLOCK: '1' }),
  ...(args['--disk'] && { OARLOCK_HA_DISK: '1' }),
  ...(args['--scale'] && { OARLOCK_HA_SCALE: `${nodes},${args['--pods'] ?? nodes * 10}` }),
  ...(args['--upgrade'] && { OARLOCK_HA_UPGRADE_FROM: await checkoutOf(from) }),
};
const chosen = ['certificates', 'clock', 'disk', 'scale', 'upgrade'].find((name) => args[`--${name}`]);
const files = chosen === undefined ? ['ha/faults', 'ha/machines'] : [`ha/${chosen}`];
const { code } = await run(join(root, 'node_modules', '.bin', 'vitest'), ['run', '--config', 'e2e/vitest.config.ts', ...files], {
  show: true,
  env,
  timeoutMs: 24 * 3_600_000,
});
process.exit(code);

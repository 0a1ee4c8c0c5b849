import { readProcessState } from '@oarlock/cluster/process/process-state';
import { ok, type Check, type CheckContext, type Finding } from './check.ts';

interface PortUse {
  readonly port: number;
  readonly use: string;
  /** The setting of another port. */
  readonly setting: string;
}

async function tryPort({ machine, dataDir }: CheckContext, { port, use, setting }: PortUse): Promise<Finding> {
  const error = await machine.listen(port);
  if (error === undefined) return ok('free');
  const running = await readProcessState(dataDir);
  if (error === 'EADDRINUSE' && running !== undefined) return ok(`in use while process ${running.pid} of ${dataDir} runs`);
  if (error !== 'EADDRINUSE')
    return {
      level: 'warn',
      found: `cannot be used: ${error}`,
      affects: `Compositions in which ${use} has its default port do not start.`,
      remedy: `Name another port in the cluster.yaml: \`${setting}\`.`,
    };
  return {
    level: 'warn',
    found: 'another process listens on it',
    affects: `A cluster takes a free port for ${use}, unless the cluster.yaml names this one.`,
    remedy: 'End the other process if this port is needed.',
  };
}

const check = (use: PortUse): Check => ({ name: `port ${use.port}`, linux: false, run: (context) => tryPort(context, use) });

const sysctl = 'net.ipv4.ip_unprivileged_port_start';
const dnsPort = 53;

/** Ports that only root may listen on, which Services of the embedded composition and load balancers of a node without root need. */
export const privilegedPorts: Check = {
  name: 'privileged ports',
  linux: true,
  async run({ machine }) {
    if (machine.root) return ok('usable as root');
    const first = Number((await machine.readText(`/proc/sys/${sysctl.replaceAll('.', '/')}`)) ?? '1024');
    if (first <= dnsPort) return ok(`usable from ${first}`);
    return {
      level: 'warn',
      found: `this user may listen from port ${first}`,
      affects: `embedded: Services have no ports below ${first}, and pods use the DNS servers of the host. rootless: neither do addresses of load balancers on the host.`,
      remedy: `Run \`sudo sysctl ${sysctl}=${dnsPort}\`, or use the composition rootless, in which Services have these ports for pods.`,
    };
  },
};

export const ports: readonly Check[] = [
  { port: 6443, use: 'the API server', setting: 'server: { port: N }' },
  { port: 10_250, use: 'the kubelet', setting: 'settings: { kubelet: { port: N } }' },
].map(check);

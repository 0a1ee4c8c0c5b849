import { networkInterfaces } from 'node:os';
import type { Clock } from '@oarlock/primitives/clock';
import { vxlanOverhead } from '@oarlock/network-cni/routing/node-routes';
import { runProgram } from '@oarlock/primitives/os/run-program';
import type { NodeNetwork } from '@oarlock/spi/network';
import type { CalicoConfig } from '../config/calico-config.ts';

const usual = 1500;
const timeoutMs = 10_000;

/** Returns the MTU of pods in bytes: the MTU of the interface that has the node's address, minus the overhead of the tunnel. */
export async function mtuOf(clock: Clock, { mtu, routes }: Pick<CalicoConfig, 'mtu' | 'routes'>, node: NodeNetwork): Promise<number> {
  if (mtu !== undefined) return mtu;
  const base = node.mtu ?? (await linkMtu(clock, node.nodeIPs)) ?? usual;
  return routes === 'vxlan' ? base - vxlanOverhead : base;
}

async function linkMtu(clock: Clock, nodeIPs: readonly string[]): Promise<number | undefined> {
  const name = Object.entries(networkInterfaces()).find(([, all]) =>
    all?.some(({ address, internal }) => !internal && nodeIPs.includes(address)),
  )?.[0];
  if (name === undefined) return undefined;
  const { exitCode, stdout } = await runProgram(clock, 'ip', ['-j', 'link', 'show', 'dev', name], { timeoutMs });
  return exitCode === 0 ? (JSON.parse(stdout) as readonly { readonly mtu?: number }[])[0]?.mtu : undefined;
}

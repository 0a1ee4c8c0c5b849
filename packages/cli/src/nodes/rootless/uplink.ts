// The program of the relay's side in the uplink namespace, the router of a node without root: `node uplink.js OPTIONS`. It ends with its parent.
import { createSocket } from 'node:dgram';
import { rm } from 'node:fs/promises';
import { systemClock } from '@oarlock/primitives/clock';
import { runProgram } from '@oarlock/primitives/os/run-program';
import { gatewayAddress, relayPort } from './node-address.ts';
import { DatagramFlows } from './relay/datagram-flows.ts';
import { DialServer } from './relay/dial-server.ts';
import { createEntrance } from './relay/entrance.ts';
import { OriginalDestinations } from './relay/original-destinations.ts';
import { SourceShares } from '@oarlock/primitives/concurrency/source-shares';

export interface UplinkOptions {
  /** Path of the unix socket of the host's side. */
  readonly host: string;
  /** Path of the unix socket of this side. */
  readonly uplink: string;
  /** The maximum number of connections and flows in each direction. */
  readonly places: number;
}

const nftTimeoutMs = 10_000;
const clock = systemClock;
const { host, uplink, places } = JSON.parse(process.argv[2] ?? '{}') as UplinkOptions;

const destinations = new OriginalDestinations(async (args) => {
  const { exitCode, stdout } = await runProgram(clock, 'nft', args, { timeoutMs: nftTimeoutMs });
  return exitCode === 0 ? stdout : undefined;
});

/** The packet rules of the node keep the addresses of its pods on the way here, so that each pod is a source. */
const shares = new SourceShares(places);
const sourceOf = (address: string) => address;
const server = createEntrance({
  path: host,
  shares,
  sourceOf,
  targetOf: (client) => destinations.find({ protocol: 'tcp', ...client }),
});
await new Promise<void>((resolve, reject) => {
  server.once('error', reject);
  server.listen(relayPort, gatewayAddress, resolve);
});

const datagrams = createSocket('udp4');
await new Promise<void>((resolve, reject) => {
  datagrams.once('error', reject);
  datagrams.bind(relayPort, gatewayAddress, resolve);
});
new DatagramFlows(datagrams, {
  clock,
  path: host,
  shares,
  sourceOf,
  targetOf: ({ address, port }) => destinations.find({ protocol: 'udp', address, port }),
});

await rm(uplink, { force: true });
await new DialServer({ clock, places, resolve: (target) => target }).listen(uplink);
process.once('disconnect', () => process.exit());
process.send?.({ ready: true });

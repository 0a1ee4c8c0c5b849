// The program of the relay's side in the uplink namespace, the router of a node without root: `node uplink.js OPTIONS`. It ends with its parent.
import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';
import { rm } from 'node:fs/promises';
import { systemClock } from '@oarlock/primitives/clock';
import { runProgram } from '@oarlock/primitives/os/run-program';
import { gatewayAddress, relayPort } from './node-address.ts';
import { DatagramFlows } from './relay/datagram-flows.ts';
import { relayConnection } from './relay/dial-client.ts';
import { DialServer } from './relay/dial-server.ts';
import { OriginalDestinations } from './relay/original-destinations.ts';

export interface UplinkOptions {
  /** Path of the unix socket of the host's side. */
  readonly host: string;
  /** Path of the unix socket of this side. */
  readonly uplink: string;
}

const nftTimeoutMs = 10_000;
const maxConnections = 8192;
const clock = systemClock;
const { host, uplink } = JSON.parse(process.argv[2] ?? '{}') as UplinkOptions;

const destinations = new OriginalDestinations(async (args) => {
  const { exitCode, stdout } = await runProgram(clock, 'nft', args, { timeoutMs: nftTimeoutMs });
  return exitCode === 0 ? stdout : undefined;
});

const server = createServer({ allowHalfOpen: true, pauseOnConnect: true, noDelay: true }, (client) => {
  const { remoteAddress: address = '', remotePort: port = 0 } = client;
  client.on('error', () => client.destroy());
  void destinations.find({ protocol: 'tcp', address, port }).then((target) => {
    if (target === undefined) client.resetAndDestroy();
    else relayConnection(client, { path: host, target });
  });
});
server.maxConnections = maxConnections;
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
  targetOf: ({ address, port }) => destinations.find({ protocol: 'udp', address, port }),
});

await rm(uplink, { force: true });
await new DialServer({ clock, resolve: (target) => target }).listen(uplink);
process.once('disconnect', () => process.exit());
process.send?.({ ready: true });

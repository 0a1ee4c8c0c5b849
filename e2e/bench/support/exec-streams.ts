import { connect } from 'node:net';
import type { Duplex, Readable } from 'node:stream';
import { WebSocket } from 'ws';
import type { Cluster } from '../../harness/cluster.ts';
import { Daemon } from '../../harness/programs.ts';

/** Runs `true` in a pod so many times, one after the other, by WebSocket as kubectl does. Returns the milliseconds of each. */
export async function execRoundTrips({ api }: Cluster, pod: string, times: number): Promise<readonly number[]> {
  const url = `${api.server.replace(/^http/, 'ws')}/api/v1/namespaces/default/pods/${pod}/exec?command=true&stdout=true`;
  const took: number[] = [];
  for (let round = 0; round < times; round++) {
    const from = performance.now();
    await new Promise<void>((resolve, reject) => {
      const socket = new WebSocket(url, 'v5.channel.k8s.io', api.tls);
      let status = '';
      socket.on('message', (data: Buffer) => {
        if (data[0] === 3) status += data.subarray(1).toString('utf8'); // the error channel, which carries the status
      });
      socket.once('error', reject).once('close', () => {
        if (status.includes('Success')) resolve();
        else reject(new Error(`exec ended with ${status || 'nothing'}`));
      });
    });
    took.push(performance.now() - from);
  }
  return took;
}

export interface Measured {
  readonly bytes: number;
  readonly perSecond: number;
}

const measuredMs = 5_000;
/** A command that writes without end. */
export const endless = ['cat', '/dev/zero'];
/** A command that serves a file which takes long enough to send. */
export const server = (port: number) => [
  'sh',
  '-c',
  `dd if=/dev/zero of=/tmp/zeros bs=1 count=1 seek=100G && exec httpd -f -p ${port} -h /tmp`,
];

/** Reads the output of an endless command for a while, by WebSocket as kubectl does. */
export async function execOutput({ api }: Cluster, pod: string): Promise<Measured> {
  const command = endless.map((word) => `command=${encodeURIComponent(word)}`).join('&');
  const url = `${api.server.replace(/^http/, 'ws')}/api/v1/namespaces/default/pods/${pod}/exec?${command}&stdout=true`;
  const socket = new WebSocket(url, 'v5.channel.k8s.io', api.tls);
  let bytes = 0;
  const from = await new Promise<number>((resolve, reject) => {
    socket.once('error', reject).once('message', () => resolve(performance.now()));
  });
  socket.on('message', (data: Buffer) => {
    bytes += data.length - 1;
  });
  await new Promise((resolve) => {
    setTimeout(resolve, measuredMs);
  });
  const perSecond = bytes / ((performance.now() - from) / 1000);
  socket.terminate();
  return { bytes, perSecond };
}

/** Reads a practically endless file from an HTTP server for a while. */
export async function received(socket: Duplex): Promise<Measured> {
  socket.write('GET /zeros HTTP/1.0\r\n\r\n');
  const measured = await flowing(socket);
  socket.destroy();
  return measured;
}

/** Counts the bytes that arrive in a while, from the first one on. */
export async function flowing(source: Readable): Promise<Measured> {
  let bytes = 0;
  const from = await new Promise<number>((resolve, reject) => {
    source.once('error', reject).once('data', () => resolve(performance.now()));
  });
  source.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  await new Promise((resolve) => {
    setTimeout(resolve, measuredMs);
  });
  return { bytes, perSecond: bytes / ((performance.now() - from) / 1000) };
}

/** Measures the throughput of a pod's output through kubectl, API server, kubelet and runtime. */
export async function forwardedBytes({ kubectl }: Cluster, pod: string, port: number): Promise<Measured> {
  const forward = new Daemon(kubectl.file, ['port-forward', pod, `:${port}`], { env: kubectl.env });
  try {
    const [, local] = await forward.line(/^Forwarding from 127\.0\.0\.1:(\d+)/);
    return await received(connect(Number(local), '127.0.0.1'));
  } finally {
    await forward.stop();
  }
}

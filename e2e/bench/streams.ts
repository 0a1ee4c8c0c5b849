import { connect } from 'node:net';
import { WebSocket } from 'ws';
import type { Cluster } from '../harness/cluster.ts';
import { Daemon } from '../harness/programs.ts';

/** Runs `true` in a pod so often, one after the other, by WebSocket as kubectl does. Milliseconds each. */
export async function execRoundTrips({ api }: Cluster, pod: string, times: number): Promise<readonly number[]> {
  const url = `${api.server.replace(/^http/, 'ws')}/api/v1/namespaces/default/pods/${pod}/exec?command=true&stdout=true`;
  const took: number[] = [];
  for (let round = 0; round < times; round++) {
    const from = performance.now();
    await new Promise<void>((resolve, reject) => {
      const socket = new WebSocket(url, 'v5.channel.k8s.io', api.tls);
      let status = '';
      socket.on('message', (data: Buffer) => {
        if (data[0] === 3) status += data.subarray(1).toString('utf8'); // the channel of the outcome
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

const measuredMs = 5_000;

/** Bytes per second from something that never stops to send. */
async function received(host: string, port: number): Promise<number> {
  const socket = connect(port, host);
  let bytes = 0;
  const from = await new Promise<number>((resolve, reject) => {
    socket.once('error', reject).once('data', () => resolve(performance.now()));
  });
  socket.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  await new Promise((resolve) => {
    setTimeout(resolve, measuredMs);
  });
  socket.destroy();
  return bytes / ((performance.now() - from) / 1000);
}

/** How fast a pod's bytes come straight from its address, and through kubectl, API server, kubelet and runtime. */
export async function forwardedBytes(
  { kubectl }: Cluster,
  pod: string,
  address: string,
  port: number,
): Promise<{ readonly direct: number; readonly forwarded: number }> {
  const direct = await received(address, port);
  const forward = new Daemon(kubectl.file, ['port-forward', pod, `:${port}`], { env: kubectl.env });
  try {
    const [, local] = await forward.line(/^Forwarding from 127\.0\.0\.1:(\d+)/);
    return { direct, forwarded: await received('127.0.0.1', Number(local)) };
  } finally {
    await forward.stop();
  }
}

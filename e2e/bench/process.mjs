// A cluster process for a bench: started from the build, in a directory of its own, stopped at the end.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = join(dirname(fileURLToPath(import.meta.url)), '../..');
const oarlock = join(root, 'packages/cli/bin/oarlock.js');

export const freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });

/** Runs `oarlock up` until it says it is ready. `spec` goes into the cluster file as JSON, which is YAML. */
export async function startCluster(spec) {
  const dir = mkdtempSync(join(tmpdir(), 'oarlock-bench-'));
  const file = join(dir, 'cluster.yaml');
  writeFileSync(file, JSON.stringify({ apiVersion: 'oarlock.dev/v1', kind: 'Cluster', metadata: { name: 'bench' }, spec }));
  const dataDir = join(dir, 'data');
  const began = performance.now();
  const child = spawn(process.execPath, [oarlock, 'up', '-f', file, '--data-dir', dataDir, '--port', String(await freePort())], { stdio: ['ignore', 'pipe', 'inherit'] });
  const readyMs = await new Promise((resolve, reject) => {
    let said = '';
    child.stdout.on('data', (chunk) => {
      said += chunk;
      if (said.includes('is ready')) resolve(performance.now() - began);
    });
    child.once('exit', (code) => reject(new Error(`the cluster ended with ${code}: ${said}`)));
  });
  const kubeconfig = join(dataDir, 'admin.kubeconfig');
  return {
    readyMs,
    pid: child.pid,
    /** Runs kubectl and returns what it printed, and how long it took. */
    kubectl(...args) {
      const from = performance.now();
      const { stdout, stderr, status } = spawnSync('kubectl', ['--kubeconfig', kubeconfig, ...args], { encoding: 'utf8' });
      if (status !== 0) throw new Error(`kubectl ${args.join(' ')}: ${stderr}`);
      return { out: stdout, ms: performance.now() - from };
    },
    rssMiB: () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))[1]) / 1024,
    cpuSeconds() {
      const stat = readFileSync(`/proc/${child.pid}/stat`, 'utf8');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return (Number(fields[11]) + Number(fields[12])) / 100;
    },
    async stop() {
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.removeAllListeners('exit');
      child.kill('SIGTERM');
      await Promise.race([ended, new Promise((resolve) => child.once('exit', resolve))]);
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

export const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

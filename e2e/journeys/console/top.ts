import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, it } from 'vitest';
import { oarlock } from '../../harness/oarlock.ts';
import { until } from '../../harness/until.ts';
import type { ConsoleStage } from './stage.ts';

/** Runs `oarlock top` on a terminal. */
export function top(stage: () => ConsoleStage): void {
  it('shows the pods in the terminal as well, live: oarlock top', async () => {
    const facts = JSON.parse((await stage().cluster.oarlock('top', '-n', 'default', '-o', 'json')).stdout) as object;
    expect(facts).toMatchObject({
      nodes: [{ name: 'node-a', status: 'Ready' }],
      controlPlane: { ready: true, queueDepths: expect.any(Object) },
    });
    const command = [oarlock.file, ...oarlock.args, 'top', '--data-dir', stage().cluster.dataDir].map((word) => `'${word}'`).join(' ');
    // `script` runs the command on a terminal of its own
    const screen = spawn('script', ['-qefc', `stty columns 160 rows 30; ${command}`, '/dev/null'], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    let output = '';
    screen.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString();
    });
    const exit = once(screen, 'exit');
    await until('the pods are listed', () => /default +hello-\S+ +1\/1 +Running/.test(output));
    await stage().cluster.kubectl.run(['run', 'top', '--image=host', '--', 'sleep', '600']);
    await until('a new pod is listed', () => /default +top +1\/1 +Running/.test(output));
    screen.stdin.write('q');
    expect(await exit).toEqual([0, null]);
    expect(output.endsWith('\u001B[?25h\u001B[?1049l')).toBe(true);
    await stage().cluster.kubectl.run(['delete', 'pod', 'top', '--grace-period=1', '--wait=false']);
  });
}

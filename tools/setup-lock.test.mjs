import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { lockAddress, withLock } from './setup-lock.mjs';

const folder = mkdtempSync(join(tmpdir(), 'oarlock-lock-'));
const children = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const module = JSON.stringify(new URL('setup-lock.mjs', import.meta.url).href);
const setupModule = JSON.stringify(new URL('setup.mjs', import.meta.url).href);

/** Starts a process that holds the lock until it is killed, or until its standard input ends. */
async function owner(address) {
  const program = `import { withLock } from ${module}; import { once } from 'node:events';
    await withLock('', async () => { console.log('held'); process.stdin.resume(); await once(process.stdin, 'end'); }, ${JSON.stringify({ address })});`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], { stdio: ['pipe', 'pipe', 'inherit'] });
  children.push(child);
  await once(child.stdout, 'data');
  return child;
}

const addresses = [
  ['a name of Linux', () => lockAddress(folder)],
  ['a file', () => join(folder, 'lock.sock')],
].slice(process.platform === 'linux' ? 0 : 1);

describe.each(addresses)('lock at %s', (_, addressOf) => {
  const address = addressOf();

  it.each([
    ['releases it', (child) => child.stdin.end()],
    ['is killed', (child) => child.kill('SIGKILL')],
  ])('is taken after its owner %s', async (_way, end) => {
    const held = await owner(address);
    let waitedFor;
    const log = [];
    const waiting = withLock(folder, () => log.push('work'), {
      address,
      onWait: (pid) => {
        waitedFor = pid;
        log.push('waits');
        end(held);
      },
    });
    await waiting;
    expect([waitedFor, log]).toEqual([held.pid, ['waits', 'work']]);
  });

  it('is held by a program that its killed owner has started, until the program ends', async () => {
    const program = `import { withLock } from ${module}; import { run } from ${setupModule};
      await withLock('', () => run(process.execPath, ['-e', 'console.log(process.pid); setTimeout(() => {}, 30000)'], { show: true, holdsLock: true }), ${JSON.stringify({ address })});`;
    const killed = spawn(process.execPath, ['--input-type=module', '--eval', program], { stdio: ['pipe', 'pipe', 'inherit'] });
    children.push(killed);
    const [line] = await once(killed.stdout, 'data');
    killed.kill('SIGKILL');
    await once(killed, 'exit');
    const log = [];
    const waiting = withLock(folder, () => log.push('work'), {
      address,
      onWait: (pid) => {
        log.push(`waits for ${pid}`);
        process.kill(Number(line.toString()), 'SIGKILL');
      },
    });
    await waiting;
    expect(log).toEqual(['waits for undefined', 'work']);
  });

  it('is held by one of several at a time', async () => {
    let running = 0;
    const most = [];
    const work = async () => {
      most.push(++running);
      await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
    };
    await Promise.all(Array.from({ length: 8 }, () => withLock(folder, work, { address })));
    expect(most).toEqual(Array(8).fill(1));
  });

  it('is released if the work fails', async () => {
    const failure = withLock(folder, () => Promise.reject(new Error('no space')), { address });
    await expect(failure).rejects.toThrow('no space');
    expect(await withLock(folder, () => 'done', { address })).toBe('done');
  });

  it('ends the wait at the timeout', async () => {
    await owner(address);
    await expect(withLock(folder, () => 'done', { address, timeoutMs: 50 })).rejects.toThrow(/timeout/);
  });
});

it('a file at the address that is no socket is replaced', async () => {
  const address = join(folder, 'corrupt.sock');
  writeFileSync(address, 'no socket');
  expect(await withLock(folder, () => 'done', { address })).toBe('done');
});

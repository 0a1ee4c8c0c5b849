import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { PassThrough, Readable, Writable } from 'node:stream';
import { setTimeout as wait } from 'node:timers/promises';
import { expect } from 'vitest';
import { Collected, eventually } from './runtime.contract.bench.ts';
import type { Suite } from './runtime.contract.ts';

const sha = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');
const mebibyte = 1024 * 1024;

export function streamContract({ needs }: Suite): void {
  needs('execSync', 'runs a command beside a container and keeps its outputs apart', async (bench) => {
    const sandbox = await bench.sandbox();
    const id = await bench.start(sandbox, 'serve');
    const [out, err, exit] = await Promise.all([
      bench.exec(id, 'echo', ['to stdout']),
      bench.exec(id, 'complain', ['to stderr']),
      bench.exec(id, 'exit', ['7']),
    ]);
    expect([`${out.stdout}`, `${out.stderr}`, out.exitCode]).toEqual(['to stdout\n', '', 0]);
    expect([`${err.stdout}`, `${err.stderr}`, err.exitCode]).toEqual(['', 'to stderr\n', 0]);
    expect(exit.exitCode).toBe(7);
  });

  needs('execSync', 'ends a command at its timeout', async (bench) => {
    const sandbox = await bench.sandbox();
    const id = await bench.start(sandbox, 'serve');
    const token = `t${randomUUID()}`;
    const began = Date.now();
    await expect(bench.exec(id, 'idle', [token], 1)).rejects.toMatchObject({ name: 'RuntimeError', code: 'DeadlineExceeded' });
    expect(Date.now() - began).toBeGreaterThanOrEqual(950);
    await eventually(
      async () => (await bench.exec(id, 'alive', [token])).exitCode === 1,
      'the timed out command is dead',
      bench.patienceMs,
    );
  });

  needs('execSync', 'refuses to run in what is not there or not running', async (bench) => {
    const { driver } = bench;
    await expect(driver.execSync('f'.repeat(64), bench.argv('exit', ['0']), 5)).rejects.toMatchObject({ code: 'NotFound' });
    const sandbox = await bench.sandbox();
    const { id } = await bench.finish(sandbox, 'exit', ['0']);
    await expect(driver.execSync(id, bench.argv('exit', ['0']), 5)).rejects.toMatchObject({ code: 'FailedPrecondition' });
  });

  needs('exec', 'gives a session its outputs and exit code', async (bench) => {
    const sandbox = await bench.sandbox();
    const id = await bench.start(sandbox, 'serve');
    const stdout = new Collected();
    const stderr = new Collected();
    const streams = { tty: false, stdout: stdout.stream, stderr: stderr.stream };
    expect(await bench.driver.exec(id, bench.argv('echo', ['out']), streams)).toBe(0);
    expect(await bench.driver.exec(id, bench.argv('complain', ['err']), streams)).toBe(0);
    expect([stdout.text, stderr.text]).toEqual(['out\n', 'err\n']);
    expect(await bench.driver.exec(id, bench.argv('exit', ['42']), { tty: false })).toBe(42);
  });

  needs('exec', 'ends stdin without ending the session', async (bench) => {
    const sandbox = await bench.sandbox();
    const id = await bench.start(sandbox, 'serve');
    const stdout = new Collected();
    const code = await bench.driver.exec(id, bench.argv('count'), {
      tty: false,
      stdin: Readable.from([Buffer.from('twelve bytes')]),
      stdout: stdout.stream,
    });
    expect([stdout.text.trim(), code]).toEqual(['12', 0]);
  });

  needs('exec', 'carries much in both directions, unchanged', async (bench) => {
    const sandbox = await bench.sandbox();
    const id = await bench.start(sandbox, 'serve');
    const blocks = Array.from({ length: 32 }, () => randomBytes(mebibyte));
    const stdout = new Collected();
    const code = await bench.driver.exec(id, bench.argv('cat'), { tty: false, stdin: Readable.from(blocks), stdout: stdout.stream });
    expect(code).toBe(0);
    expect(stdout.bytes.length).toBe(32 * mebibyte);
    expect(sha(stdout.bytes)).toBe(sha(Buffer.concat(blocks)));
  });

  needs('exec', 'waits for a slow reader, and has written all when it resolves', async (bench) => {
    const sandbox = await bench.sandbox();
    const id = await bench.start(sandbox, 'serve');
    let read = 0;
    const slow = new Writable({
      highWaterMark: 16 * 1024,
      write(chunk: Buffer, _encoding, done) {
        read += chunk.length;
        wait(1).then(() => done(), done);
      },
    });
    expect(await bench.driver.exec(id, bench.argv('flood', [`${4 * mebibyte}`]), { tty: false, stdout: slow })).toBe(0);
    expect(read).toBe(4 * mebibyte + 1);
  });

  needs('exec', 'ends with its process, though its stdin would go on for ever', async (bench) => {
    const sandbox = await bench.sandbox();
    const id = await bench.start(sandbox, 'serve');
    const block = Buffer.alloc(64 * 1024);
    const endless = new Readable({
      read() {
        this.push(block);
      },
    });
    const stdout = new Collected();
    expect(await bench.driver.exec(id, bench.argv('exit', ['3']), { tty: false, stdin: endless, stdout: stdout.stream })).toBe(3);
    endless.destroy();
    expect(
      await bench.driver.exec(id, bench.argv('echo', ['last words']), {
        tty: false,
        stdin: new Readable({
          read() {
            this.push(block);
          },
        }),
        stdout: stdout.stream,
      }),
    ).toBe(0);
    expect(stdout.text).toBe('last words\n');
  });

  needs(['exec', 'execSync'], 'kills the process of a session that is aborted', async (bench) => {
    const sandbox = await bench.sandbox();
    const id = await bench.start(sandbox, 'serve');
    const token = `t${randomUUID()}`;
    const stop = new AbortController();
    const session = bench.driver.exec(
      id,
      bench.argv('idle', [token]),
      { tty: false, stdin: new PassThrough(), stdout: new Collected().stream },
      { signal: stop.signal },
    );
    const ended = session.then(
      () => 'resolved',
      () => 'rejected',
    );
    await eventually(async () => (await bench.exec(id, 'alive', [token])).exitCode === 0, 'the session runs', bench.patienceMs);
    stop.abort();
    expect(await ended).toBe('rejected');
    await eventually(async () => (await bench.exec(id, 'alive', [token])).exitCode === 1, 'the aborted session is dead', bench.patienceMs);
    expect((await bench.driver.containerStatus(id)).state).toBe('RUNNING');
  });

  needs('exec', 'runs sessions side by side', async (bench) => {
    const sandbox = await bench.sandbox();
    const id = await bench.start(sandbox, 'serve');
    const outputs = await Promise.all(
      Array.from({ length: 5 }, async (_, index) => {
        const stdout = new Collected();
        const code = await bench.driver.exec(id, bench.argv('echo', [`session ${index}`]), { tty: false, stdout: stdout.stream });
        return [stdout.text, code];
      }),
    );
    expect(outputs).toEqual(Array.from({ length: 5 }, (_, index) => [`session ${index}\n`, 0]));
  });

  needs('execTty', 'gives a session a terminal that can be resized', async (bench) => {
    const sandbox = await bench.sandbox();
    const id = await bench.start(sandbox, 'serve');
    const stdin = new PassThrough();
    const stdout = new Collected();
    async function* sizes() {
      yield { width: 101, height: 41 };
    }
    const session = bench.driver.exec(id, bench.argv('size'), { tty: true, stdin, stdout: stdout.stream, resize: sizes() });
    const asking = setInterval(() => stdin.write('\n'), 50);
    await stdout.until((text) => text.includes('41 101'));
    clearInterval(asking);
    stdin.end('\x04');
    expect(await session).toBe(0);
  });

  needs('attach', 'joins the streams of a running container', async (bench) => {
    const sandbox = await bench.sandbox();
    const id = await bench.start(sandbox, 'cat', [], { stdin: true, stdinOnce: true });
    const stdin = new PassThrough();
    const stdout = new Collected();
    const session = bench.driver.attach(id, { tty: false, stdin, stdout: stdout.stream });
    stdin.write('hello\n');
    await stdout.until((text) => text === 'hello\n');
    stdin.end();
    await session;
    expect(await bench.exited(id)).toMatchObject({ exitCode: 0 });
    if (bench.fixture.lacks?.logs === undefined) expect((await bench.log(id)).map((record) => record.text)).toEqual(['hello']);
  });

  needs('attach', 'leaves the container running when the caller goes away', async (bench) => {
    const sandbox = await bench.sandbox();
    const id = await bench.start(sandbox, 'serve');
    const stop = new AbortController();
    const session = bench.driver.attach(id, { tty: false, stdout: new Collected().stream }, { signal: stop.signal }).catch(() => undefined);
    stop.abort();
    await session;
    expect((await bench.driver.containerStatus(id)).state).toBe('RUNNING');
  });

  needs('portForward', 'carries bytes to a port of the sandbox and back', async (bench) => {
    const sandbox = await bench.sandbox();
    await bench.start(sandbox, 'listen', ['8099']);
    const echo = async (bytes: Buffer): Promise<Buffer> => {
      const duplex = await bench.driver.portForward(sandbox.id, 8099);
      const chunks: Buffer[] = [];
      let length = 0;
      duplex.write(bytes);
      for await (const chunk of duplex) {
        chunks.push(chunk as Buffer);
        length += (chunk as Buffer).length;
        // not before: what half closed connections may still carry is the runtime's own affair
        if (length >= bytes.length) duplex.end();
      }
      return Buffer.concat(chunks);
    };
    await eventually(
      () =>
        echo(Buffer.from('ping')).then(
          (answer) => answer.toString() === 'ping',
          () => false,
        ),
      'the port answers',
      bench.patienceMs,
    );
    const block = randomBytes(4 * mebibyte);
    const answers = await Promise.all([echo(block), echo(Buffer.from('other'))]);
    expect(sha(answers[0])).toBe(sha(block));
    expect(answers[1].toString()).toBe('other');
  });

  needs('portForward', 'fails a forward to a port where nobody listens', async (bench) => {
    const sandbox = await bench.sandbox();
    await bench.start(sandbox, 'serve');
    const attempt = async () => {
      const duplex = await bench.driver.portForward(sandbox.id, 9);
      duplex.end('anybody?');
      for await (const _ of duplex) throw new Error('bytes from nowhere');
    };
    await expect(attempt()).rejects.toMatchObject({ name: 'RuntimeError' });
  });
}

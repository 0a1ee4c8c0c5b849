import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { PassThrough, Readable, Writable } from 'node:stream';
import { setTimeout as wait } from 'node:timers/promises';
import { expect } from 'vitest';
import { eventually, type Suite } from './harness.ts';
import { OutputBuffer } from './output-buffer.ts';

const sha = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');
const mebibyte = 1024 * 1024;

export function streamContract({ needs }: Suite): void {
  needs('execSync', 'runs a command in a container and separates its outputs', async (harness) => {
    const sandbox = await harness.sandbox();
    const id = await harness.start(sandbox, 'serve');
    const [out, err, exit] = await Promise.all([
      harness.exec(id, 'echo', ['to stdout']),
      harness.exec(id, 'complain', ['to stderr']),
      harness.exec(id, 'exit', ['7']),
    ]);
    expect([`${out.stdout}`, `${out.stderr}`, out.exitCode]).toEqual(['to stdout\n', '', 0]);
    expect([`${err.stdout}`, `${err.stderr}`, err.exitCode]).toEqual(['', 'to stderr\n', 0]);
    expect(exit.exitCode).toBe(7);
  });

  needs('execSync', 'kills a command at its timeout', async (harness) => {
    const sandbox = await harness.sandbox();
    const id = await harness.start(sandbox, 'serve');
    const token = `t${randomUUID()}`;
    const began = Date.now();
    await expect(harness.exec(id, 'idle', [token], 1)).rejects.toMatchObject({ name: 'RuntimeError', code: 'DeadlineExceeded' });
    expect(Date.now() - began).toBeGreaterThanOrEqual(950);
    await eventually(
      async () => (await harness.exec(id, 'alive', [token])).exitCode === 1,
      'the timed out command is dead',
      harness.timeoutMs,
    );
  });

  needs('execSync', 'rejects unknown and exited containers', async (harness) => {
    const { driver } = harness;
    await expect(driver.execSync('f'.repeat(64), harness.argv('exit', ['0']), 5)).rejects.toMatchObject({ code: 'NotFound' });
    const sandbox = await harness.sandbox();
    const { id } = await harness.runToExit(sandbox, 'exit', ['0']);
    await expect(driver.execSync(id, harness.argv('exit', ['0']), 5)).rejects.toMatchObject({ code: 'FailedPrecondition' });
  });

  needs('exec', 'returns outputs and exit code of a session', async (harness) => {
    const sandbox = await harness.sandbox();
    const id = await harness.start(sandbox, 'serve');
    const stdout = new OutputBuffer();
    const stderr = new OutputBuffer();
    const streams = { tty: false, stdout: stdout.stream, stderr: stderr.stream };
    expect(await harness.driver.exec(id, harness.argv('echo', ['out']), streams)).toBe(0);
    expect(await harness.driver.exec(id, harness.argv('complain', ['err']), streams)).toBe(0);
    expect([stdout.text, stderr.text]).toEqual(['out\n', 'err\n']);
    expect(await harness.driver.exec(id, harness.argv('exit', ['42']), { tty: false })).toBe(42);
  });

  needs('exec', 'ends stdin without ending the session', async (harness) => {
    const sandbox = await harness.sandbox();
    const id = await harness.start(sandbox, 'serve');
    const stdout = new OutputBuffer();
    const code = await harness.driver.exec(id, harness.argv('count'), {
      tty: false,
      stdin: Readable.from([Buffer.from('twelve bytes')]),
      stdout: stdout.stream,
    });
    expect([stdout.text.trim(), code]).toEqual(['12', 0]);
  });

  needs('exec', 'transfers large data in both directions unchanged', async (harness) => {
    const sandbox = await harness.sandbox();
    const id = await harness.start(sandbox, 'serve');
    const blocks = Array.from({ length: 32 }, () => randomBytes(mebibyte));
    const stdout = new OutputBuffer();
    const code = await harness.driver.exec(id, harness.argv('cat'), { tty: false, stdin: Readable.from(blocks), stdout: stdout.stream });
    expect(code).toBe(0);
    expect(stdout.bytes.length).toBe(32 * mebibyte);
    expect(sha(stdout.bytes)).toBe(sha(Buffer.concat(blocks)));
  });

  needs('exec', 'waits for a slow reader, and has written everything when it resolves', async (harness) => {
    const sandbox = await harness.sandbox();
    const id = await harness.start(sandbox, 'serve');
    let read = 0;
    const slow = new Writable({
      highWaterMark: 16 * 1024,
      write(chunk: Buffer, _encoding, done) {
        read += chunk.length;
        wait(1).then(() => done(), done);
      },
    });
    expect(await harness.driver.exec(id, harness.argv('flood', [`${4 * mebibyte}`]), { tty: false, stdout: slow })).toBe(0);
    expect(read).toBe(4 * mebibyte + 1);
  });

  needs('exec', 'ends with its process, even if stdin has not ended', async (harness) => {
    const sandbox = await harness.sandbox();
    const id = await harness.start(sandbox, 'serve');
    const block = Buffer.alloc(64 * 1024);
    const endless = new Readable({
      read() {
        this.push(block);
      },
    });
    const stdout = new OutputBuffer();
    expect(await harness.driver.exec(id, harness.argv('exit', ['3']), { tty: false, stdin: endless, stdout: stdout.stream })).toBe(3);
    endless.destroy();
    expect(
      await harness.driver.exec(id, harness.argv('echo', ['last words']), {
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

  needs(['exec', 'execSync'], 'kills the process of an aborted session', async (harness) => {
    const sandbox = await harness.sandbox();
    const id = await harness.start(sandbox, 'serve');
    const token = `t${randomUUID()}`;
    const stop = new AbortController();
    const session = harness.driver.exec(
      id,
      harness.argv('idle', [token]),
      { tty: false, stdin: new PassThrough(), stdout: new OutputBuffer().stream },
      { signal: stop.signal },
    );
    const ended = session.then(
      () => 'resolved',
      () => 'rejected',
    );
    await eventually(async () => (await harness.exec(id, 'alive', [token])).exitCode === 0, 'the session runs', harness.timeoutMs);
    stop.abort();
    expect(await ended).toBe('rejected');
    await eventually(
      async () => (await harness.exec(id, 'alive', [token])).exitCode === 1,
      'the aborted session is dead',
      harness.timeoutMs,
    );
    expect((await harness.driver.containerStatus(id)).state).toBe('RUNNING');
  });

  needs('exec', 'runs sessions concurrently', async (harness) => {
    const sandbox = await harness.sandbox();
    const id = await harness.start(sandbox, 'serve');
    const outputs = await Promise.all(
      Array.from({ length: 5 }, async (_, index) => {
        const stdout = new OutputBuffer();
        const code = await harness.driver.exec(id, harness.argv('echo', [`session ${index}`]), { tty: false, stdout: stdout.stream });
        return [stdout.text, code];
      }),
    );
    expect(outputs).toEqual(Array.from({ length: 5 }, (_, index) => [`session ${index}\n`, 0]));
  });

  needs('execTty', 'provides a terminal that can be resized', async (harness) => {
    const sandbox = await harness.sandbox();
    const id = await harness.start(sandbox, 'serve');
    const stdin = new PassThrough();
    const stdout = new OutputBuffer();
    async function* sizes() {
      yield { width: 101, height: 41 };
    }
    const session = harness.driver.exec(id, harness.argv('size'), { tty: true, stdin, stdout: stdout.stream, resize: sizes() });
    const poll = setInterval(() => stdin.write('\n'), 50);
    await stdout.until((text) => text.includes('41 101'));
    clearInterval(poll);
    stdin.end('\x04');
    expect(await session).toBe(0);
  });

  needs('attach', 'connects to the streams of a running container', async (harness) => {
    const sandbox = await harness.sandbox();
    const id = await harness.start(sandbox, 'cat', [], { stdin: true, stdinOnce: true });
    const stdin = new PassThrough();
    const stdout = new OutputBuffer();
    const session = harness.driver.attach(id, { tty: false, stdin, stdout: stdout.stream });
    stdin.write('hello\n');
    await stdout.until((text) => text === 'hello\n');
    stdin.end();
    await session;
    expect(await harness.waitForExit(id)).toMatchObject({ exitCode: 0 });
    if (harness.fixture.unsupported?.logs === undefined) expect((await harness.log(id)).map((record) => record.text)).toEqual(['hello']);
  });

  needs('attach', 'leaves the container running when the caller disconnects', async (harness) => {
    const sandbox = await harness.sandbox();
    const id = await harness.start(sandbox, 'serve');
    const stop = new AbortController();
    const session = harness.driver
      .attach(id, { tty: false, stdout: new OutputBuffer().stream }, { signal: stop.signal })
      .catch(() => undefined);
    stop.abort();
    await session;
    expect((await harness.driver.containerStatus(id)).state).toBe('RUNNING');
  });

  needs('portForward', 'transfers data to a port of the sandbox and back', async (harness) => {
    const sandbox = await harness.sandbox();
    await harness.start(sandbox, 'listen', ['8099']);
    const echo = async (bytes: Buffer): Promise<Buffer> => {
      const duplex = await harness.driver.portForward(sandbox.id, 8099);
      const chunks: Buffer[] = [];
      let length = 0;
      duplex.write(bytes);
      for await (const chunk of duplex) {
        chunks.push(chunk as Buffer);
        length += (chunk as Buffer).length;
        // not earlier: runtimes differ in what a half closed connection still transfers
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
      harness.timeoutMs,
    );
    const block = randomBytes(4 * mebibyte);
    const answers = await Promise.all([echo(block), echo(Buffer.from('other'))]);
    expect(sha(answers[0])).toBe(sha(block));
    expect(answers[1].toString()).toBe('other');
  });

  needs('portForward', 'fails for a port without a listener', async (harness) => {
    const sandbox = await harness.sandbox();
    await harness.start(sandbox, 'serve');
    const attempt = async () => {
      const duplex = await harness.driver.portForward(sandbox.id, 9);
      duplex.end('ping');
      for await (const _ of duplex) throw new Error('received bytes without a listener');
    };
    await expect(attempt()).rejects.toMatchObject({
      name: 'RuntimeError',
      message: expect.stringContaining('connect: connection refused') as string,
    });
  });
}

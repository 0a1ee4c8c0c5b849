import { describe, expect, it } from 'vitest';
import type { Exchange, ResponseStream } from '../../../src/http/exchange.ts';
import { BodyWriter } from '../../../src/http/internal/body-writer.ts';

/** A stream that reads a chunk only when it drains, as a slow client does. */
class LateStream implements ResponseStream {
  closed = false;
  read = '';
  writes = 0;
  #pending: Buffer[] = [];

  write(chunks: readonly Buffer[]): boolean {
    this.writes += 1;
    this.#pending.push(...chunks);
    return false;
  }
  waitForDrain(): Promise<void> {
    return Promise.resolve().then(() => this.#readPending());
  }
  end(): void {
    this.#readPending();
    this.closed = true;
  }

  #readPending(): void {
    for (const chunk of this.#pending) this.read += chunk.toString('latin1');
    this.#pending = [];
  }
}

function writerOver(stream: ResponseStream, sent: Buffer[] = []): BodyWriter {
  const exchange = { openStream: () => stream, send: (_code: number, body: Buffer) => sent.push(body) } as unknown as Exchange;
  return new BodyWriter(exchange, 200, { gzip: false });
}

describe('BodyWriter', () => {
  it('delivers a large body unchanged to a stream that reads late', async () => {
    const stream = new LateStream();
    const body = writerOver(stream);
    let expected = '';
    for (let index = 0; index < 40_000; index += 1) {
      const text = `item ${index} of a list,`;
      expected += text;
      body.add(Buffer.from(text));
      if (body.mustFlush()) await body.flush();
    }
    await body.end();
    expect(stream.writes).toBeGreaterThan(2);
    expect(stream.read === expected).toBe(true);
    expect(stream.closed).toBe(true);
  });

  it('sends a small body at once', async () => {
    const sent: Buffer[] = [];
    const body = writerOver(new LateStream(), sent);
    body.add(Buffer.from('{"items":[]}'), 1);
    await body.end();
    expect(sent.map(String)).toEqual(['"items":[]}']);
  });

  it.each([0, 7, 10, 99, 100, 4_294_967_296, Number.MAX_SAFE_INTEGER])('writes the digits of %d', async (value) => {
    const sent: Buffer[] = [];
    const body = writerOver(new LateStream(), sent);
    body.add(Buffer.from('<'));
    body.addDecimal(value);
    body.add(Buffer.from('>'));
    await body.end();
    expect(sent.map(String)).toEqual([`<${value}>`]);
  });

  it('writes digits at the end of a full piece', async () => {
    const sent: Buffer[] = [];
    const body = writerOver(new LateStream(), sent);
    body.add(Buffer.alloc(16 * 1024, 'x'));
    body.addDecimal(12_345);
    await body.end();
    expect(sent.map((bytes) => bytes.subarray(-6).toString())).toEqual(['x12345']);
  });
});

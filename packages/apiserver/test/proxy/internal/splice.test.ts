import { Duplex } from 'node:stream';
import { expect, it } from 'vitest';
import { copyBidirectional } from '../../../src/proxy/internal/splice.ts';

it('apply back pressure to a fast sender', async () => {
  const [near, far] = pair();
  const [near2, far2] = pair();
  const done = copyBidirectional(near, near2, { headA: Buffer.alloc(0), headB: Buffer.alloc(0), lingerMs: 10 });
  let sent = 0;
  const chunk = Buffer.alloc(16 * 1024);
  while (sent < 10_000 && far.write(chunk)) sent += 1;
  expect(sent).toBeLessThan(100);
  far2.resume();
  await new Promise((resolve) => {
    far.once('drain', resolve);
  });
  far.destroy();
  await done;
  expect(far2.destroyed || near2.destroyed).toBe(true);
});

/** Creates two connected ends of a stream. */
function pair(): readonly [Duplex, Duplex] {
  const make = (): Duplex & { other?: Duplex; release?: (() => void) | undefined } =>
    new Duplex({
      read() {
        const self = this as Duplex & { release?: (() => void) | undefined };
        const { release } = self;
        self.release = undefined;
        release?.();
      },
      write(chunk: Buffer, _, callback) {
        const { other } = this as Duplex & { other?: Duplex & { release?: () => void } };
        if (other === undefined || other.push(chunk)) callback();
        else
          other.release = () => {
            callback();
          };
      },
      final(callback) {
        (this as Duplex & { other?: Duplex }).other?.push(null);
        callback();
      },
      destroy(error, callback) {
        (this as Duplex & { other?: Duplex }).other?.destroy();
        callback(error);
      },
    });
  const [a, b] = [make(), make()];
  a.other = b;
  b.other = a;
  return [a, b];
}

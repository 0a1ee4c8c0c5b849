import { FakeClock } from '@oarlock/testing/fake-clock';
import { describe, expect, it } from 'vitest';
import { Progress } from '../../../src/common/progress/progress.ts';

/** A stream that records what is written to it. */
class Screen {
  readonly isTTY: boolean;
  readonly columns = 40;
  text = '';
  constructor(isTTY: boolean) {
    this.isTTY = isTTY;
  }
  write(text: string): boolean {
    this.text += text;
    return true;
  }
}
const clear = '\r\u001B[2K';

describe('progress on a terminal', () => {
  it('is shown after a second, with the step, how far it is, and the time, and disappears', async () => {
    const [clock, output] = [new FakeClock(), new Screen(true)];
    const progress = new Progress({ output, clock });
    progress.step('opening the storage');
    await clock.advance(999);
    expect(output.text).toBe('');
    progress.step('writing the objects');
    progress.detail('1,200');
    await clock.advance(1);
    expect(output.text).toMatch(/^. writing the objects: 1,200 \(1 s\)$/u);
    progress.detail('an object with \u001B[31m in its name, and a name that is longer than the line');
    await clock.advance(100);
    const [, painted = ''] = output.text.split(clear);
    expect(painted).toContain('writing the objects: an object with \uFFFD');
    expect(painted).toHaveLength(39);
    progress.stop();
    expect(output.text.endsWith(clear)).toBe(true);
    const { length } = output.text;
    await clock.advance(10_000);
    expect(output.text).toHaveLength(length);
  });

  it('clears its line before other output of the process', async () => {
    const [clock, output, stdout] = [new FakeClock(), new Screen(true), new Screen(true)];
    const progress = new Progress({ output, others: [stdout], clock });
    progress.step('draining');
    await clock.advance(1_000);
    stdout.write('evicting pod a\n');
    expect(output.text.endsWith(clear)).toBe(true);
    output.write('a warning\n');
    expect(output.text.endsWith(`${clear}a warning\n`)).toBe(true);
    progress.stop();
    expect([output.write, stdout.write]).toEqual([Screen.prototype.write, Screen.prototype.write]);
  });

  it('counts the time before the first step', async () => {
    const [clock, output, late] = [new FakeClock(), new Screen(true), new Screen(true)];
    const startedAt = clock.monotonic();
    await clock.advance(600);
    const progress = new Progress({ output, clock, startedAt });
    progress.step('examining this machine');
    await clock.advance(399);
    expect(output.text).toBe('');
    await clock.advance(1);
    expect(output.text).toMatch(/^. examining this machine \(1 s\)$/u);
    progress.stop();
    const begunLate = new Progress({ output: late, clock, startedAt });
    begunLate.step('loading the plugins');
    expect(late.text).toMatch(/^. loading the plugins \(1 s\)$/u);
    begunLate.stop();
  });

  it('is not shown by a quick command', async () => {
    const [clock, output] = [new FakeClock(), new Screen(true)];
    const progress = new Progress({ output, clock });
    progress.step('reading');
    progress.stop();
    await clock.advance(60_000);
    expect(output.text).toBe('');
  });
});

describe('progress in a file or pipe', () => {
  it('is one line for each step of more than ten seconds', async () => {
    const [clock, output] = [new FakeClock(), new Screen(false)];
    const progress = new Progress({ output, clock });
    progress.step('reading the backup');
    await clock.advance(9_999);
    progress.step('restoring the objects');
    await clock.advance(9_999);
    expect(output.text).toBe('');
    progress.detail('7');
    await clock.advance(1);
    await clock.advance(60_000);
    expect(output.text).toBe('restoring the objects ...\n');
    progress.stop();
    expect(output.text).toBe('restoring the objects ...\n');
  });
});

// Preloaded into a process: shifts what it takes for the time by as many milliseconds as the file OARLOCK_TEST_CLOCK holds, read at SIGUSR2.
// Only the clock of the day: durations are measured with another one, as on a machine whose clock is set.
import { readFileSync } from 'node:fs';

const Real = Date;
let shift = 0;

globalThis.Date = class extends Real {
  constructor(...given) {
    if (given.length === 0) super(Real.now() + shift);
    else super(...given);
  }
  static now() {
    return Real.now() + shift;
  }
};

process.on('SIGUSR2', () => {
  shift = Number(readFileSync(process.env['OARLOCK_TEST_CLOCK'] ?? '', 'utf8'));
});

// Preloaded into a process: shifts its wall clock by the milliseconds in the file OARLOCK_TEST_CLOCK, read at SIGUSR2.
// Monotonic time is not shifted, as on a machine whose clock is set.
import { readFileSync } from 'node:fs';

const Real = Date;
let shift = 0;

globalThis.Date = class extends Real {
  constructor(...args) {
    if (args.length === 0) super(Real.now() + shift);
    else super(...args);
  }
  static now() {
    return Real.now() + shift;
  }
};

process.on('SIGUSR2', () => {
  shift = Number(readFileSync(process.env['OARLOCK_TEST_CLOCK'] ?? '', 'utf8'));
});

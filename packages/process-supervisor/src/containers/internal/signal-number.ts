import { constants } from 'node:os';
import { SupervisorError } from '../../protocol/supervisor-protocol.ts';

/** Returns the number of a signal such as `SIGTERM`, `TERM`, `SIGRTMIN+3` or `15`. @throws SupervisorError `InvalidArgument` for other text */
export function signalNumber(name: string): number {
  const plain = name.toUpperCase().replace(/^SIG/, '');
  const realTime = /^RTMIN(?:\+(\d{1,2}))?$/.exec(plain);
  const number = /^\d{1,2}$/.test(plain)
    ? Number(plain)
    : realTime
      ? 34 + Number(realTime[1] ?? 0)
      : constants.signals[`SIG${plain}` as NodeJS.Signals];
  if (number === undefined || number < 1 || number > 64)
    throw new SupervisorError('InvalidArgument', `not a signal: ${JSON.stringify(name)}`);
  return number;
}

/** The local date and time of an instant in a time zone. `month` starts at 1; `weekday` 0 is Sunday. */
export interface WallTime {
  readonly year: number;
  readonly month: number;
  readonly day: number;
  readonly hour: number;
  readonly minute: number;
  readonly weekday: number;
}

const minuteMs = 60_000;

/** A time zone of the IANA database. */
export class TimeZone {
  readonly name: string;
  readonly #format: Intl.DateTimeFormat | undefined;

  /** @throws RangeError if the IANA database has no time zone of this name */
  constructor(name: string) {
    this.name = name;
    this.#format =
      name === 'UTC'
        ? undefined
        : new Intl.DateTimeFormat('en-US', {
            timeZone: name,
            hourCycle: 'h23',
            year: 'numeric',
            month: 'numeric',
            day: 'numeric',
            hour: 'numeric',
            minute: 'numeric',
            second: 'numeric',
          });
  }

  /** Returns the offset from UTC at this instant in milliseconds, positive east of Greenwich. */
  offset(at: number): number {
    if (this.#format === undefined) return 0;
    const part: Record<string, number> = {};
    for (const { type, value } of this.#format.formatToParts(at)) part[type] = Number(value);
    const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = part;
    return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(at / 1000) * 1000;
  }

  wall(at: number): WallTime {
    const shifted = new Date(at + this.offset(at));
    return {
      year: shifted.getUTCFullYear(),
      month: shifted.getUTCMonth() + 1,
      day: shifted.getUTCDate(),
      hour: shifted.getUTCHours(),
      minute: shifted.getUTCMinutes(),
      weekday: shifted.getUTCDay(),
    };
  }

  /**
   * Returns the first instant of a day. Days beyond the end of a month overflow into the next month. If a clock change skips midnight, the day
   * starts later.
   */
  dayStart(year: number, month: number, day: number): number {
    const localMs = Date.UTC(year, month - 1, day);
    let at = localMs - this.offset(localMs);
    at = localMs - this.offset(at);
    // both guesses miss if midnight is skipped: advance to the start of the day
    while (at + this.offset(at) < localMs) at += 15 * minuteMs;
    return at;
  }

  /** Formats an instant as RFC 3339 with the time zone's offset. */
  format(at: number): string {
    const offset = this.offset(at);
    const text = new Date(at + offset).toISOString().slice(0, 19);
    if (offset === 0) return `${text}Z`;
    const minutes = Math.abs(offset) / minuteMs;
    const twoDigits = (n: number) => String(Math.trunc(n)).padStart(2, '0');
    return `${text}${offset < 0 ? '-' : '+'}${twoDigits(minutes / 60)}:${twoDigits(minutes % 60)}`;
  }
}

/** The parts of an instant as a clock on the wall of a zone shows them. `month` from 1, `weekday` from Sunday as 0. */
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

  /** @throws RangeError for a zone that nobody knows */
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

  /** Milliseconds that the zone is ahead of UTC at this instant. */
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

  /** The first instant of a day; days beyond the end of a month count on. Where the clock skips midnight, the first there is. */
  dayStart(year: number, month: number, day: number): number {
    const wanted = Date.UTC(year, month - 1, day);
    let at = wanted - this.offset(wanted);
    at = wanted - this.offset(at);
    // in a gap both guesses miss: go on to where the day has begun
    while (at + this.offset(at) < wanted) at += 15 * minuteMs;
    return at;
  }

  /** RFC 3339 with the zone's offset. */
  format(at: number): string {
    const offset = this.offset(at);
    const text = new Date(at + offset).toISOString().slice(0, 19);
    if (offset === 0) return `${text}Z`;
    const minutes = Math.abs(offset) / minuteMs;
    const two = (n: number) => String(Math.trunc(n)).padStart(2, '0');
    return `${text}${offset < 0 ? '-' : '+'}${two(minutes / 60)}:${two(minutes % 60)}`;
  }
}

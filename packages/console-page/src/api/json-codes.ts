/** The code units of JSON that a scanner needs to find where strings, objects and arrays begin and end. */
export const quote = 0x22;
export const backslash = 0x5c;
export const openBracket = 0x5b;

/** Returns true for the first code unit of an object or an array. */
export const opens = (code: number): boolean => code === 0x7b || code === openBracket;
/** Returns true for the last code unit of an object or an array. */
export const closes = (code: number): boolean => code === 0x7d || code === 0x5d;

throw new Error('this module does not load');
export const nothing = 1;

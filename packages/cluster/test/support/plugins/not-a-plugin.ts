export default { id: 'looks-like-one' };

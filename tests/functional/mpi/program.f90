! SPDX-License-Identifier: BSD-3-Clause
! A Fortran program as users write them, by all three of MPI's Fortran interfaces: it solves a heat equation by
! conjugate gradients (mpi_f08), transposes a matrix (use mpi), and gathers and reduces values of all of
! Fortran's types (mpif.h). What it prints does not depend on the order in which MPI adds: numbers are
! integers, or printed to fewer digits than the order can change.

! The interface of Fortran 77: every collective once, on each type.
subroutine types(rank, ranks)
   implicit none
   include 'mpif.h'
   integer, intent(in) :: rank, ranks
   integer :: error, i, request, status(MPI_STATUS_SIZE), count(2), both(2)
   integer :: numbers(1000), all(1000 * ranks), part(1000), few(ranks)
   integer*2 :: short(10)
   integer*8 :: long(10)
   real :: single(10)
   double precision :: double(10), pair(2)
   complex :: wave(10)
   double complex :: waves(10)
   logical :: truth(3)
   character(len=24) :: text

   numbers = [(i + rank, i = 1, 1000)]
   call MPI_ALLREDUCE(MPI_IN_PLACE, numbers, 1000, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
   short = int(rank, 2)
   call MPI_ALLREDUCE(MPI_IN_PLACE, short, 10, MPI_INTEGER2, MPI_MAX, MPI_COMM_WORLD, error)
   long = [(int(rank, 8) * 2_8**40 + i, i = 1, 10)]
   call MPI_ALLREDUCE(MPI_IN_PLACE, long, 10, MPI_INTEGER8, MPI_SUM, MPI_COMM_WORLD, error)
   single = [(real(rank + i), i = 1, 10)]
   call MPI_ALLREDUCE(MPI_IN_PLACE, single, 10, MPI_REAL, MPI_PROD, MPI_COMM_WORLD, error)
   double = [(dble(rank * i), i = 1, 10)]
   call MPI_ALLREDUCE(MPI_IN_PLACE, double, 10, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
   wave = [(cmplx(rank, i), i = 1, 10)]
   call MPI_ALLREDUCE(MPI_IN_PLACE, wave, 10, MPI_COMPLEX, MPI_SUM, MPI_COMM_WORLD, error)
   waves = [(dcmplx(rank, i), i = 1, 10)]
   call MPI_ALLREDUCE(MPI_IN_PLACE, waves, 10, MPI_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD, error)
   truth = [rank >= 0, rank == 1, rank > 0]
   call MPI_ALLREDUCE(MPI_IN_PLACE, truth, 3, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, error)
   ! Where the largest value is: this stays with MPI.
   pair = [dble(mod(rank * 7, 5)), dble(rank)]
   call MPI_ALLREDUCE(MPI_IN_PLACE, pair, 1, MPI_2DOUBLE_PRECISION, MPI_MAXLOC, MPI_COMM_WORLD, error)
   if (rank == 0) then
      print '(a,3(1x,i0))', 'numbers', numbers(1), numbers(1000), sum(numbers)
      print '(a,3(1x,i0))', 'short, long', short(10), long(1), long(10)
      print '(a,4(1x,f0.1))', 'reals', single(1), single(10), double(1), double(10)
      print '(a,4(1x,f0.1),3(1x,l1))', 'complex, logical', wave(10), waves(1), truth
      print '(a,2(1x,f0.1))', 'largest', pair
   end if

   text = ''
   if (rank == 1) text = 'a text of rank 1'
   call MPI_BCAST(text, len(text), MPI_CHARACTER, 1, MPI_COMM_WORLD, error)
   call MPI_REDUCE(numbers, part, 1000, MPI_INTEGER, MPI_MIN, ranks - 1, MPI_COMM_WORLD, error)
   if (rank == ranks - 1) numbers = part + 1
   call MPI_BCAST(numbers, 1000, MPI_INTEGER, ranks - 1, MPI_COMM_WORLD, error)
   call MPI_GATHER(numbers, 1000, MPI_INTEGER, all, 1000, MPI_INTEGER, 0, MPI_COMM_WORLD, error)
   if (rank == 0) all = all * 2
   call MPI_SCATTER(all, 1000, MPI_INTEGER, part, 1000, MPI_INTEGER, 0, MPI_COMM_WORLD, error)
   call MPI_ALLGATHER(part, 1000, MPI_INTEGER, all, 1000, MPI_INTEGER, MPI_COMM_WORLD, error)
   call MPI_REDUCE_SCATTER_BLOCK(all, part, 1000, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
   few = [(rank * 100 + i, i = 1, ranks)]
   call MPI_IALLREDUCE(MPI_IN_PLACE, few, ranks, MPI_INTEGER, MPI_BOR, MPI_COMM_WORLD, request, error)
   call MPI_WAIT(request, status, error)
   count = [rank, sum(mod(part, 1000))]
   call MPI_REDUCE(count, both, 2, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, error)
   call MPI_BARRIER(MPI_COMM_WORLD, error)
   if (rank == 0) then
      print '(a,2(1x,i0),1x,a)', 'moved', both, text
      print '(a,*(1x,i0))', 'few', few
   end if
end subroutine

! The interface of Fortran 90: rows of a matrix become columns.
subroutine transpose_matrix(rank, ranks, rows)
   use mpi
   implicit none
   integer, intent(in) :: rank, ranks, rows
   integer :: b(rows, rows, ranks), i, j, k, wrong, all, error

   b = reshape([(((value(rank, j, i, k), i = 1, rows), k = 1, rows), j = 1, ranks)], shape(b))
   call MPI_ALLTOALL(MPI_IN_PLACE, rows * rows, MPI_INTEGER, b, rows * rows, MPI_INTEGER, MPI_COMM_WORLD, error)
   wrong = 0
   do j = 1, ranks
      wrong = wrong + count(b(:, :, j) /= reshape([((value(j - 1, rank + 1, i, k), i = 1, rows), k = 1, rows)], [rows, rows]))
   end do
   call MPI_REDUCE(wrong, all, 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, error)
   if (rank == 0) print '(a,1x,i0)', 'transposed, wrong:', all

contains

   ! Of rank `from`, for the rank of number `to`.
   pure integer function value(from, to, i, k)
      integer, intent(in) :: from, to, i, k

      value = 1000000 * (from * rows + k) + (to - 1) * rows + i
   end function
end subroutine

program collectives
   use mpi_f08
   implicit none
   integer :: rank, ranks

   call MPI_Init()
   call MPI_Comm_rank(MPI_COMM_WORLD, rank)
   call MPI_Comm_size(MPI_COMM_WORLD, ranks)
   call types(rank, ranks)
   call transpose_matrix(rank, ranks, 64)
   call heat(MPI_COMM_WORLD, 96)
   call halves()
   call MPI_Finalize()

contains

   ! Solves -u'' = f on a square by conjugate gradients, each rank with some columns.
   subroutine heat(comm, n)
      type(MPI_Comm), intent(in) :: comm
      integer, intent(in) :: n
      integer :: me, parts, columns, step
      double precision, allocatable :: x(:, :), r(:, :), p(:, :), q(:, :), whole(:, :)
      double precision :: rr, before, alpha

      call MPI_Comm_rank(comm, me)
      call MPI_Comm_size(comm, parts)
      columns = n / parts
      allocate (x(n, columns), r(n, columns), p(0:n + 1, 0:columns + 1), q(n, columns), whole(n, columns * parts))
      x = 0
      r = 1
      p = 0
      p(1:n, 1:columns) = r
      rr = dot(r, r, comm)
      do step = 1, 400
         call exchange(p, columns, me, parts, comm)
         q = 4 * p(1:n, 1:columns) - p(0:n - 1, 1:columns) - p(2:n + 1, 1:columns) - p(1:n, 0:columns - 1) &
            - p(1:n, 2:columns + 1)
         alpha = rr / dot(p(1:n, 1:columns), q, comm)
         x = x + alpha * p(1:n, 1:columns)
         r = r - alpha * q
         before = rr
         rr = dot(r, r, comm)
         if (rr < 1d-12) exit
         p(1:n, 1:columns) = r + rr / before * p(1:n, 1:columns)
      end do
      call MPI_Gather(x, n * columns, MPI_DOUBLE_PRECISION, whole, n * columns, MPI_DOUBLE_PRECISION, 0, comm)
      if (me == 0) print '(a,i0,a,es13.6,a,f10.4)', 'heat: ', parts, ' parts, mean ', &
         sum(whole) / size(whole), ', largest ', maxval(whole)
   end subroutine

   double precision function dot(a, b, comm)
      double precision, intent(in) :: a(:, :), b(:, :)
      type(MPI_Comm), intent(in) :: comm

      dot = sum(a * b)
      call MPI_Allreduce(MPI_IN_PLACE, dot, 1, MPI_DOUBLE_PRECISION, MPI_SUM, comm)
   end function

   ! Edges to the neighbours.
   subroutine exchange(p, columns, me, parts, comm)
      double precision, intent(inout) :: p(0:, 0:)
      integer, intent(in) :: columns, me, parts
      type(MPI_Comm), intent(in) :: comm
      integer :: left, right, rows

      left = merge(me - 1, MPI_PROC_NULL, me > 0)
      right = merge(me + 1, MPI_PROC_NULL, me < parts - 1)
      rows = size(p, 1)
      call MPI_Sendrecv(p(:, columns), rows, MPI_DOUBLE_PRECISION, right, 0, &
         p(:, 0), rows, MPI_DOUBLE_PRECISION, left, 0, comm, MPI_STATUS_IGNORE)
      call MPI_Sendrecv(p(:, 1), rows, MPI_DOUBLE_PRECISION, left, 1, &
         p(:, columns + 1), rows, MPI_DOUBLE_PRECISION, right, 1, comm, MPI_STATUS_IGNORE)
   end subroutine

   ! The same on halves of the ranks, side by side.
   subroutine halves()
      type(MPI_Comm) :: half

      call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), rank, half)
      call heat(half, 32)
      call MPI_Comm_free(half)
   end subroutine
end program

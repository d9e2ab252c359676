! SPDX-License-Identifier: BSD-3-Clause
! The same calls by each of MPI's Fortran interfaces, all of which the preload library must see: in each, two
! reductions (one in place), a barrier, and their nonblocking forms, which different functions complete.
subroutine old()
   implicit none
   include 'mpif.h'
   integer :: error, ranks, one, total, requests(2), status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, 2)

   call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, error)
   one = 1
   call MPI_ALLREDUCE(MPI_IN_PLACE, one, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
   if (one /= ranks) call MPI_ABORT(MPI_COMM_WORLD, 1, error)
   call MPI_BARRIER(MPI_COMM_WORLD, error)
   call MPI_IALLREDUCE(one, total, 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, requests(1), error)
   call MPI_WAIT(requests(1), status, error)
   if (total /= ranks) call MPI_ABORT(MPI_COMM_WORLD, 2, error)
   call MPI_IALLREDUCE(one, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, requests(1), error)
   call MPI_IBARRIER(MPI_COMM_WORLD, requests(2), error)
   call MPI_WAITALL(2, requests, statuses, error)
   if (total /= ranks * ranks) call MPI_ABORT(MPI_COMM_WORLD, 3, error)
end subroutine

subroutine module90()
   use mpi
   implicit none
   integer :: error, ranks, one, total, requests(2), which
   logical :: done

   call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
   one = 1
   call MPI_Allreduce(MPI_IN_PLACE, one, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
   if (one /= ranks) call MPI_Abort(MPI_COMM_WORLD, 4, error)
   call MPI_Barrier(MPI_COMM_WORLD, error)
   call MPI_Iallreduce(one, total, 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, requests(1), error)
   done = .false.
   do while (.not. done)
      call MPI_Test(requests(1), done, MPI_STATUS_IGNORE, error)
   end do
   if (total /= ranks) call MPI_Abort(MPI_COMM_WORLD, 5, error)
   call MPI_Iallreduce(one, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, requests(1), error)
   call MPI_Ibarrier(MPI_COMM_WORLD, requests(2), error)
   call MPI_Waitany(2, requests, which, MPI_STATUS_IGNORE, error)
   call MPI_Waitany(2, requests, which, MPI_STATUS_IGNORE, error)
   if (total /= ranks * ranks) call MPI_Abort(MPI_COMM_WORLD, 6, error)
end subroutine

subroutine module08()
   use mpi_f08
   implicit none
   integer :: ranks, one, total
   type(MPI_Request) :: requests(2)

   call MPI_Comm_size(MPI_COMM_WORLD, ranks)
   one = 1
   call MPI_Allreduce(MPI_IN_PLACE, one, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
   if (one /= ranks) call MPI_Abort(MPI_COMM_WORLD, 7)
   call MPI_Barrier(MPI_COMM_WORLD)
   call MPI_Iallreduce(one, total, 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, requests(1))
   call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
   if (total /= ranks) call MPI_Abort(MPI_COMM_WORLD, 8)
   call MPI_Iallreduce(one, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, requests(1))
   call MPI_Ibarrier(MPI_COMM_WORLD, requests(2))
   call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
   if (total /= ranks * ranks) call MPI_Abort(MPI_COMM_WORLD, 9)
end subroutine

program interfaces
   use mpi_f08
   implicit none
   integer :: rank

   call MPI_Init()
   call MPI_Comm_rank(MPI_COMM_WORLD, rank)
   call old()
   call module90()
   call module08()
   if (rank == 0) print '(a)', 'good'
   call MPI_Finalize()
end program
